"""The clock of a reply's reader, by what was sent: how long until it needs more."""

from __future__ import annotations

import math

from andes_jax.request import Request


class ReaderClock:
    """The scheduler's clock of the same name (scheduling/ledger.py), moved when text is sent and not when it is made.

    A reader begins with the first token and reads one every `pace` seconds; where text came late it goes on from there.
    """

    __slots__ = ("_begun", "_pace_s", "_wants_s")

    def __init__(self, request: Request) -> None:
        target = request.qoe
        self._pace_s = 0.0 if target is None else 1.0 / target.tokens_per_s
        self._wants_s = math.inf if target is None else request.arrived_s + target.first_token_s
        self._begun = False

    def sent(self, tokens: int, now_s: float) -> None:
        """So many tokens were sent together."""
        if not tokens:
            return
        if not self._begun:
            self._begun = True
            if self._wants_s < math.inf:
                self._wants_s = now_s
        self._wants_s = max(self._wants_s + tokens * self._pace_s, now_s + (tokens - 1) * self._pace_s)

    def slack_s(self, now_s: float) -> float:
        """Seconds until the reader needs the next token; negative when it waits, inf where nobody reads along."""
        return self._wants_s - now_s
