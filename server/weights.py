"""What a reply's tier and its reader's need are worth on a connection that it shares with others.

A tier has a band of HTTP/2 weights and one of urgencies (RFC 9218), and the reader's need a place in it. What a client
says of its own streams, by the weight of a PRIORITY frame or by a `priority` header, moves them in their band: one tier
never passes another, whatever is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from andes_jax.request import Tier
from andes_jax.scheduling.priority import LEAST_NEED, Weights
from server.transport import Transport

WEIGHT_BANDS = {Tier.REALTIME: (41, 256), Tier.STREAMING: (7, 40), Tier.BATCH: (1, 6)}  # each about sixfold
URGENCY_BANDS = {Tier.REALTIME: (0, 2), Tier.STREAMING: (3, 5), Tier.BATCH: (6, 7)}  # 0 is the most urgent
USUAL_URGENCY, LEAST_URGENCY = 3, 7  # of RFC 9218
MOST_WEIGHT = 256
NOTABLE = 1.25  # a weight that changes by less stays as it is
LONGEST_HEADER = 256  # bytes of a `priority` header that are read
HORIZON_S = Weights().horizon_s  # as the scheduler's


def need_of(slack_s: float) -> float:
    """How badly a reader with this slack needs more, in (0, 1]: the scheduler's figure for one reader."""
    return min(1.0, max(LEAST_NEED, 1.0 - slack_s / HORIZON_S))


def asked_urgency(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The urgency (0 to 7) of a request's `priority` headers; None when there is none that can be understood."""
    value = b",".join(value for name, value in headers if name == b"priority")
    urgency = None
    for member in value[:LONGEST_HEADER].split(b","):
        key, _, number = member.partition(b";")[0].strip(b" \t").partition(b"=")
        if key == b"u" and len(number) == 1 and b"0" <= number <= b"7":
            urgency = int(number)  # the last one counts
    return urgency


def push_of(urgency: int | None, weight: int | None) -> float:
    """Where a client wants a stream in its band: -1 at the bottom, 0 where it would be anyway, 1 at the top.

    The header is the newer way to say it, and counts before the weight.
    """
    if urgency is not None:
        below = urgency <= USUAL_URGENCY
        return (USUAL_URGENCY - urgency) / (USUAL_URGENCY if below else LEAST_URGENCY - USUAL_URGENCY)
    if weight is not None:
        return 2 * math.log(weight, MOST_WEIGHT) - 1  # 0 at 16, which is what a stream has when nobody says anything
    return 0.0


def weight_of(tier: Tier, need: float, push: float) -> int:
    """The weight (1 to 256) of a stream; equal steps of need or push are equal factors."""
    low, high = WEIGHT_BANDS[tier]
    return round(low * (high / low) ** _place(need, push))


def urgency_of(tier: Tier, need: float, push: float) -> int:
    """The urgency (0 to 7, 0 first) of a stream."""
    first, last = URGENCY_BANDS[tier]
    return last - round((last - first) * _place(need, push))


def _place(need: float, push: float) -> float:
    return min(1.0, max(0.0, need + push))


class StreamWeight:
    """Keeps the weight of one call's stream."""

    def __init__(self, transport: Transport | None, tier: Tier, urgency: int | None) -> None:
        """`urgency` is what the client has asked for, if anything."""
        self._transport = transport
        self._tier = tier
        self._urgency = urgency
        self._weight = 0  # none given yet
        self._told: tuple[float, int | None] | None = None  # the need and the client's weight that it stands for

    def header(self, slack_s: float) -> bytes:
        """The value of the response's `priority` header, for whoever passes the stream on."""
        return b"u=%d, i" % urgency_of(self._tier, need_of(slack_s), self._push())

    def follow(self, slack_s: float) -> None:
        """Give the stream the weight that its reader's slack is worth, when that has changed notably."""
        if self._transport is None:
            return
        told = need_of(slack_s), self._transport.asked_weight()
        if told == self._told:  # as of most, once their reader is far ahead
            return
        self._told = told
        weight = weight_of(self._tier, told[0], push_of(self._urgency, told[1]))
        known = self._weight
        if (weight >= known * NOTABLE or weight * NOTABLE <= known) and self._transport.set_weight(weight):
            self._weight = weight

    def _push(self) -> float:
        asked = None if self._transport is None else self._transport.asked_weight()
        return push_of(self._urgency, asked)
