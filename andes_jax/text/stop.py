"""Finds stop strings in a text that comes in pieces, in time linear in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class StopMatch(NamedTuple):
    """Where a stop string was found, in characters of the piece just fed."""

    end: int  # just past its last character
    length: int  # of the stop string; may exceed `end`, for it may have begun in earlier pieces


class StopFinder:
    """Watches for the stop string that is complete first; of several complete at one character, the longest.

    So what is found depends on the text alone, never on how it is cut into pieces.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises ValueError for an empty stop string, which would match everywhere."""
        self._stops = [_Stop(stop) for stop in dict.fromkeys(stops)]
        first = "".join(sorted({re.escape(stop.first) for stop in self._stops}))
        self._may_begin = re.compile(f"[{first}]").search if first else lambda piece: None
        self.quiet = True  # no stop string is under way

    @property
    def held(self) -> int:
        """Characters at the end of the text so far that may be the beginning of a stop string."""
        return max([stop.matched for stop in self._stops], default=0)

    def feed(self, piece: str) -> StopMatch | None:
        """Go on with the next piece; the first match, after which nothing more may be fed."""
        if self.quiet and not self._may_begin(piece):
            return None
        best: StopMatch | None = None
        for stop in self._stops:
            end = stop.advance(piece)
            if end is not None and (best is None or (end, -stop.length) < (best.end, -best.length)):
                best = StopMatch(end, stop.length)
        self.quiet = not self.held
        return best


class _Stop:
    """One stop string, matched as Knuth, Morris and Pratt do: no character of the text is looked at again."""

    def __init__(self, stop: str) -> None:
        if not stop:
            raise ValueError("a stop string must not be empty")
        self._stop = stop
        self._fallback = _fallbacks(stop)
        self.first = stop[0]
        self.length = len(stop)
        self.matched = 0  # characters of the stop string that end the text so far

    def advance(self, piece: str) -> int | None:
        """Read a piece; the index just past the first match in it."""
        stop, fallback, matched = self._stop, self._fallback, self.matched
        at = 0
        while at < len(piece):
            if not matched:
                at = piece.find(stop[0], at)
                if at < 0:
                    break
                matched = 1
            elif piece[at] == stop[matched]:
                matched += 1
            else:
                # The character is tried again against the shorter beginning.
                matched = fallback[matched]
                continue
            at += 1
            if matched == self.length:
                return at
        self.matched = matched
        return None


def _fallbacks(stop: str) -> list[int]:
    """For each number of matched characters, the next smaller number that still matches the same text's end."""
    fallbacks = [0, 0]
    border = 0
    for character in stop[1:]:
        while border and stop[border] != character:
            border = fallbacks[border]
        if stop[border] == character:
            border += 1
        fallbacks.append(border)
    return fallbacks
