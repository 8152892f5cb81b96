"""Tokens shared out over events, against counts worked out by hand."""

from __future__ import annotations

import pytest

from andes_jax.loadtest.token_times import EventLog, token_times


def log_of(*events: tuple[float, int] | tuple[float, int, int | None]) -> EventLog:
    log = EventLog()
    for event in events:
        time_s, letters, *total = event
        log.add(time_s, letters, total[0] if total else None)
    return log


@pytest.mark.parametrize(
    ("log", "tokens", "times"),
    [
        # One token an event; the last event only says that it is over.
        (log_of((1, 3), (2, 1), (3, 0)), 2, [1, 2]),
        # One token too many: it belongs where the most text is.
        (log_of((1, 3), (2, 8), (3, 4), (3, 0)), 4, [1, 2, 2, 3]),
        (log_of((1, 2), (2, 8), (3, 3)), 6, [1, 2, 2, 2, 2, 3]),
        # Fewer tokens than pieces of text.
        (log_of((1, 3), (2, 1), (3, 1)), 2, [1, 2]),
        # Tokens without any text.
        (log_of((5, 0)), 3, [5, 5, 5]),
        # Nobody says how many: at least one with each text.
        (log_of((1, 3), (2, 9)), None, [1, 2]),
        (log_of((1, 3), (2, 9)), 0, []),
        (log_of(), None, []),
        (log_of(), 7, []),
    ],
)
def test_tokens_are_shared_by_text(log, tokens, times):
    assert token_times(log, tokens).tolist() == times


@pytest.mark.parametrize(
    ("log", "tokens", "times"),
    [
        (log_of((1, 1, 1), (2, 9, 2), (3, 1, 5)), 5, [1, 2, 3, 3, 3]),
        # Half a character waits for the rest of it.
        (log_of((1, 0, 1), (2, 1, 2), (3, 1, 3)), 3, [2, 2, 3]),
        # A last token without text comes with the finish.
        (log_of((1, 1, 1), (2, 0, 2)), 2, [1, 2]),
        # Broken off: what was stated holds.
        (log_of((1, 1, 2), (2, 1, 4)), None, [1, 1, 2, 2]),
        # A server whose last event does not count.
        (log_of((1, 4, 2), (2, 1, None)), 3, [1, 1, 2]),
        # Totals that go down make no sense.
        (log_of((1, 1, 5), (2, 1, 2)), 2, [1, 2]),
    ],
)
def test_tokens_are_shared_by_what_the_server_says(log, tokens, times):
    assert token_times(log, tokens).tolist() == times
