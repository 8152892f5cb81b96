"""Whatever a stream looks like, its tokens come in order, at times of its events, and as many as the server counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from andes_jax.loadtest.token_times import EventLog, token_times

EVENTS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 9), st.one_of(st.none(), st.integers(0, 40))), max_size=12
)


def log_of(events: list[tuple[int, int, int | None]]) -> EventLog:
    log = EventLog()
    for (_, letters, total), time_s in zip(events, sorted(event[0] for event in events), strict=True):
        log.add(float(time_s), letters, total)
    return log


@given(events=EVENTS, tokens=st.integers(0, 60))
def test_every_counted_token_has_a_time(events, tokens):
    log = log_of([(time, letters, None) for time, letters, _ in events])
    times = token_times(log, tokens).tolist()
    assert times == sorted(times) and set(times) <= set(log.times_s)
    assert len(times) == (tokens if events else 0)


@given(events=EVENTS)
def test_the_first_token_is_the_first_text(events):
    log = log_of(events)
    spoken = [time for time, letters in zip(log.times_s, log.letters, strict=True) if letters]
    times = token_times(EventLog(log.times_s, log.letters, [None] * len(events)), None).tolist()
    assert times == spoken


@given(events=EVENTS, tokens=st.one_of(st.none(), st.integers(0, 60)))
def test_stated_totals_are_kept_in_order(events, tokens):
    log = log_of(events)
    times = token_times(log, tokens).tolist()
    assert times == sorted(times) and set(times) <= set(log.times_s)
