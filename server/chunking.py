"""When the text that is ready for a stream leaves: now, or a little later and together with what comes until then.

Text waits where that costs its reader nothing: behind bytes that have not left yet it would wait anyway, and a reader
who is far ahead does not miss it. What it saves are packets, bytes (an event's frame of JSON is many times its text)
and time of the loop. A stream's first text and its end never wait, and nothing waits longer than the send interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

MOST_CHUNK_BYTES = 16 * 1024  # what one DATA frame carries, unless the client asks for more
MANY_STREAMS = 50  # above so many chunks are half as large, so that each has its turn sooner
LAN_ROUND_TRIP_S = 0.001  # up to here chunks are at their largest
LARGEST_FACTOR = 4.0  # times the chunk size, on a LAN
LAN_SHARE = 0.2  # of the send interval: how far apart chunks are on a LAN, where a packet more costs little
BUSY_LAG_S = 0.005  # a loop that comes to its events so late has no time for small chunks of many streams
LAG_SPACING = 10.0  # times the loop's lag: how far apart chunks are at least, so that it can catch up
AHEAD_S = 4.0  # a reader with so much text left to read does not notice the send interval
LEAST_HOLD_S = 0.001  # less is not worth a timer


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """What the user has set."""

    chunk_bytes: int = 4096
    interval_s: float = 0.05  # the longest that text waits for more
    adaptive: bool = True  # False: everything leaves as soon as it comes


class Situation(NamedTuple):
    """What is known of a stream at the moment. None stands for what nobody can tell."""

    held_bytes: int  # ready to leave
    held_since_s: float  # when the first of them came
    last_sent_s: float  # when something left before; -inf: nothing has
    urgent: bool  # among them is a choice's first text, or its end
    slack_s: float  # until the reader needs more than was sent; inf where nobody reads along
    unsent_bytes: int  # sent before, and still on this machine
    round_trip_s: float | None  # the least measured
    delivery_bytes_per_s: float | None  # what the connection carries
    window_bytes: int | None  # what the client lets the stream send now; may be negative
    streams: int  # open on this server
    lag_s: float  # how late the loop comes to the engine's events


class Hold(NamedTuple):
    """Wait until a time, or until so many bytes are ready."""

    until_s: float
    until_bytes: int


def chunk_bytes(limits: ChunkLimits, round_trip_s: float | None, streams: int) -> int:
    """The bytes from which text does not wait for more: four times the setting on a LAN, half of it in a crowd."""
    if streams > MANY_STREAMS:
        return max(1, limits.chunk_bytes // 2)
    factor = 1.0
    if round_trip_s is not None:
        factor = min(LARGEST_FACTOR, max(1.0, LARGEST_FACTOR * LAN_ROUND_TRIP_S / max(round_trip_s, 1e-9)))
    return max(limits.chunk_bytes, min(MOST_CHUNK_BYTES, int(limits.chunk_bytes * factor)))


def decide(situation: Situation, now: float, limits: ChunkLimits) -> Hold | None:
    """How long the text that is ready should wait for more; None: let it leave now.

    `now` and the times of the situation are on one clock, in seconds.
    """
    if not limits.adaptive or situation.urgent:
        return None
    size = chunk_bytes(limits, situation.round_trip_s, situation.streams)
    if situation.held_bytes >= size:
        return None
    last_s = situation.held_since_s + limits.interval_s
    apart_s = situation.last_sent_s + _spacing_s(situation, limits)
    until_s = min(last_s, max(apart_s, now + _drain_s(situation)))
    return Hold(until_s, size) if until_s - now >= LEAST_HOLD_S else None


def _spacing_s(situation: Situation, limits: ChunkLimits) -> float:
    """How far apart chunks are while that costs the reader nothing; what comes after a longer silence never waits."""
    catching_up_s = min(limits.interval_s, LAG_SPACING * situation.lag_s)
    if situation.slack_s > AHEAD_S:
        near = situation.round_trip_s is None or situation.round_trip_s <= LAN_ROUND_TRIP_S
        return max(catching_up_s, limits.interval_s * LAN_SHARE) if near else limits.interval_s
    crowded = situation.streams > MANY_STREAMS and situation.lag_s > BUSY_LAG_S
    return catching_up_s if crowded else 0.0


def _drain_s(situation: Situation) -> float:
    """How long what was sent before still takes to leave, so that text could not follow it sooner; inf: not known."""
    if situation.window_bytes is not None and situation.window_bytes <= 0:
        return math.inf
    if not situation.unsent_bytes:
        return 0.0
    rate = situation.delivery_bytes_per_s
    return situation.unsent_bytes / rate if rate else math.inf
