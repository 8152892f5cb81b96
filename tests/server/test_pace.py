"""A stream's pace: what is asked of the policy, and what becomes of the answer."""

from __future__ import annotations

import math

import pytest

from andes_jax.clock import VirtualClock
from andes_jax.request import FinishReason, QoeTarget, Request, SamplingParams, Tier
from server.chunking import ChunkLimits
from server.mailbox import Held, Piece
from server.pace import Pacing, StreamPace
from server.transport import TransportState


class Calls:
    def __init__(self, requests) -> None:
        self.requests = requests


class FrontEnd:
    lag_s = 0.0


class Link:
    def __init__(self, state: TransportState) -> None:
        self._state = state

    def state(self) -> TransportState:
        return self._state


class Weight:
    def __init__(self) -> None:
        self.slacks: list[float] = []

    def follow(self, slack_s: float) -> None:
        self.slacks.append(slack_s)

    def header(self, slack_s: float) -> bytes:
        return b"u=1"


READER = QoeTarget(first_token_s=1.0, tokens_per_s=5.0)


def paced(
    state: TransportState | None = None, limits: ChunkLimits | None = None, targets=(READER,)
) -> tuple[StreamPace, Weight, VirtualClock]:
    clock = VirtualClock(100.0)
    requests = [
        Request(f"r{index}", (1,), SamplingParams(9), qoe=each, arrived_s=100.0) for index, each in enumerate(targets)
    ]
    weight = Weight()
    pacing = Pacing(limits or ChunkLimits(), clock, FrontEnd())
    link = None if state is None else Link(state)
    return StreamPace(pacing, Calls(requests), link, weight), weight, clock


def held(size: int = 5, *, urgent: bool = False, at_s: float = 100.0) -> Held:
    waiting = Held()
    waiting.add(size, urgent=urgent, emitted_s=at_s, now_s=at_s)
    return waiting


CONGESTED = TransportState(0.3, 125_000.0, 30_000, 16_000, 50_000)


def test_text_waits_behind_unsent_bytes():
    pace, _, _ = paced(CONGESTED)
    hold = pace.hold(held(), 100.01)
    assert hold is not None and hold.until_s == pytest.approx(100.05) and hold.until_bytes == 4096
    assert pace.hold(held(urgent=True), 100.0) is None
    assert pace.hold(held(5000), 100.0) is None
    assert pace.hold(Held(), 100.0) is None


def test_text_never_waits_without_adaptation_or_without_a_reason():
    assert paced(CONGESTED, ChunkLimits(adaptive=False))[0].hold(held(), 100.0) is None
    assert paced(TransportState(0.04, 1e6, 0, 0, 60_000))[0].hold(held(), 100.0) is None
    assert paced()[0].hold(held(), 100.0) is None


def test_readers_far_ahead_let_text_wait():
    pace, weight, clock = paced(TransportState(0.04, 1e6, 0, 0, 60_000))
    pace.sent([Piece(0, token_ids=[7] * 10)], clock.now())  # two seconds of reading
    assert pace.hold(held(), 100.0) is None
    pace.sent([Piece(0, token_ids=[7] * 20)], clock.now())
    assert pace.hold(held(), 100.0) is not None
    assert pace.hold(held(at_s=100.06), 100.06) is None  # nothing had left for long enough
    pace.sent([Piece(0, token_ids=[7] * 1)], 103.0)
    assert pace.hold(held(at_s=103.0), 103.0) is None  # they read on
    assert weight.slacks == [pytest.approx(2.0), pytest.approx(6.0), pytest.approx(3.2)]


def test_the_reader_who_needs_text_first_decides_until_its_choice_ends():
    pace, weight, clock = paced(TransportState(0.04, 1e6, 0, 0, 60_000), targets=(READER, READER))
    assert pace.begin() == b"u=1" and weight.slacks == [1.0]
    pace.sent([Piece(0, token_ids=[7] * 100)], clock.now())
    assert weight.slacks[-1] == 1.0 and pace.hold(held(), 100.0) is None
    pace.sent([Piece(1, token_ids=[7] * 3, finish=FinishReason.STOP)], clock.now())
    assert weight.slacks[-1] == pytest.approx(20.0) and pace.hold(held(), 100.0) is not None
    told = len(weight.slacks)
    pace.sent([Piece(0, token_ids=[7] * 1, finish=FinishReason.LENGTH)], clock.now())
    assert len(weight.slacks) == told  # nothing more comes


def test_where_nobody_reads_along_text_may_wait():
    pace, weight, _ = paced(TransportState(0.04, 1e6, 0, 0, 60_000), targets=(None,))
    pace.begin()
    pace.sent([Piece(0, token_ids=[7] * 1)], 100.0)
    assert pace.hold(held(), 100.0) is not None
    assert weight.slacks == [math.inf, math.inf]


def test_open_streams_are_counted():
    pacing = Pacing(ChunkLimits(), VirtualClock(), FrontEnd())
    call = Calls([Request("r", (1,), SamplingParams(9), tier=Tier.BATCH)])
    with pacing.stream(call, None, Weight()), pytest.raises(ZeroDivisionError):
        assert pacing.streams == 1
        with pacing.stream(call, None, Weight()):
            assert pacing.streams == 2
            raise ZeroDivisionError
    assert pacing.streams == 0
