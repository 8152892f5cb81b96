"""When each token reached the reader, from the events of a stream, of which one may carry several tokens.

A token has reached the reader when its text has: tokens without text of their own (half a character, a special
token) come with the next text, and at the end with the stream's last event. How many tokens an event carries is,
from the best source to the worst:

1. what the server says with each event (`stream_options.continuous_usage_stats`);
2. what it says at the end for the whole reply: each event with text carries one token, and the surplus goes where the
   most text per token is (highest averages, as seats are given to parties);
3. nothing, as in a reply that was broken off: one token for each event with text, a lower bound.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class EventLog:
    """The events of one stream, in columns."""

    times_s: list[float] = field(default_factory=list)  # when they came, ascending
    letters: list[int] = field(default_factory=list)  # length of their text
    totals: list[int | None] = field(default_factory=list)  # tokens up to and with them, where the server says so

    def add(self, at_s: float, letters: int, total: int | None) -> None:
        """Note one event."""
        self.times_s.append(at_s)
        self.letters.append(letters)
        self.totals.append(total)


def token_times(log: EventLog, tokens: int | None) -> np.ndarray:
    """Arrival of each token [tokens], ascending, in the log's time.

    Args:
        tokens: of the whole reply, as the server counts; None: it did not say.
    """
    counts = _stated(log, tokens) or _shared(log, tokens)
    return np.repeat(np.asarray(log.times_s, np.float64), counts)


def _stated(log: EventLog, tokens: int | None) -> list[int] | None:
    """Tokens of each event by the server's running totals; None where they are missing or make no sense."""
    counts = [0] * len(log.times_s)
    seen = given = 0
    for index, (letters, total) in enumerate(zip(log.letters, log.totals, strict=True)):
        if total is None or total < seen:
            return None
        seen = total
        if letters:
            counts[index] = seen - given
            given = seen
    seen = max(seen, tokens or 0)
    if counts:
        counts[-1] += seen - given
    return counts if seen else None


def _shared(log: EventLog, tokens: int | None) -> list[int]:
    """Tokens of each event by its text."""
    speaking = [index for index, letters in enumerate(log.letters) if letters]
    counts = [int(letters > 0) for letters in log.letters]
    surplus = (tokens or 0) - len(speaking)
    if surplus < 0 and tokens is not None:
        # More pieces of text than tokens: the last ones are the rest of tokens that came before.
        for index in speaking[tokens:]:
            counts[index] = 0
    elif not speaking:
        if counts:
            counts[-1] = surplus
    elif surplus > 0:
        heap = [(-log.letters[index] / 2, index) for index in speaking]
        heapq.heapify(heap)
        for _ in range(surplus):
            _, index = heap[0]
            counts[index] += 1
            heapq.heapreplace(heap, (-log.letters[index] / (counts[index] + 1), index))
    return counts
