from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.request import Tier
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.learned_times import LearnedTimes
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.pacing import AIM_SHARE, LEAST_TOKENS, ChunkPacer
from andes_jax.scheduling.step_time import StepTimeModel, StepWork
from tests.unit.scheduling.parts import columns, known_times

REALTIME, STREAMING, BATCH = Tier
TIMES = known_times(step=0.01, decode=0.001, context=1e-5, prefill=0.0001)


def pacer(times: StepTimeModel = TIMES, step_tokens: int = 2048, aim_s: float = 0.2) -> ChunkPacer:
    return ChunkPacer(times, SchedulerLimits(64, 4096, step_tokens, 2048, 16, realtime_aim_s=aim_s))


def draft(decodes: int = 0, context: int = 0) -> Draft:
    made = Draft()
    made.slices = [None] * decodes
    made.decodes, made.context = decodes, context
    return made


@pytest.mark.parametrize(
    ("slack_s", "pace_s", "in_flight_s", "allowed_s"),
    [
        (0.5, 0.2, 0.1, 0.6),  # the token in flight is due in 0.5, this one in 0.7, and it starts in 0.1
        (0.0, 0.2, 0.1, 0.2),  # late already: not to be later afterwards
        (-9.0, 0.2, 0.1, 0.2),
        (0.1, 0.2, 0.1, 0.2),
        (0.11, 0.2, 0.1, 0.21),
        (0.5, 0.2, 0.0, 0.7),
    ],
)
def test_the_allowance_by_hand(slack_s, pace_s, in_flight_s, allowed_s):
    running = columns([REALTIME], slack_s=slack_s, pace_s=pace_s)
    assert pacer().allowance_s(running, in_flight_s) == pytest.approx(allowed_s)


def test_the_reader_closest_to_falling_behind_decides():
    running = columns([REALTIME] * 3, slack_s=[0.5, 0.2, 3.0], pace_s=[0.1, 0.2, 0.05])
    assert pacer().allowance_s(running, 0.1) == pytest.approx(0.3)


def test_only_readers_of_realtime_replies_count():
    running = columns([REALTIME, STREAMING, BATCH], slack_s=[inf, -9.0, -9.0], pace_s=[0.0, 0.2, 0.2])
    assert pacer().allowance_s(running, 0.1) == inf
    assert pacer().allowance_s(columns([]), 0.1) == inf


def test_tokens_by_hand():
    # 10 decodes of 100 positions each: 10 + 10 + 10 ms; 0.1 ms a token, so 70 ms more are 700 tokens.
    found = pacer().tokens(draft(10, 1000), 0.1, 0)
    assert 692 <= found <= 700


def test_a_step_takes_all_there_is_room_for_when_it_may():
    assert pacer().tokens(draft(10, 1000), inf, 0) == 2038
    assert pacer().tokens(draft(10, 1000), 5.0, 0) == 2038
    assert pacer(LearnedTimes(50)).tokens(draft(10, 1000), 0.0, 0) == 2038, "nothing is known yet"


def test_a_step_always_takes_some_tokens():
    assert pacer().tokens(draft(10, 1000), 0.0, 0) == LEAST_TOKENS
    assert pacer(step_tokens=64).tokens(draft(60, 1000), 0.0, 0) == 4, "no more than there is room for"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(Tier), st.floats(-3, 3), st.sampled_from([0.0, 0.02, 0.1, 0.25])), max_size=6),
    st.integers(0, 60), st.integers(0, 3000), st.floats(0, 0.3), st.integers(64, 4096), st.integers(0, 2000),
)  # fmt: skip
def test_no_reader_falls_behind_by_the_model(readers, decodes, context, in_flight_s, step_tokens, before):
    owner = pacer(step_tokens=step_tokens)
    tiers, slack, pace = ([each[index] for each in readers] for index in range(3))
    running = columns(tiers, slack_s=slack, pace_s=pace)
    made = draft(decodes, context * decodes)
    tokens = owner.tokens(made, owner.allowance_s(running, in_flight_s), before)
    assert 0 <= tokens <= step_tokens - decodes

    def later_s(prompt_tokens: int) -> float:
        """How much later the latest reader would be after this step than before the one in flight."""
        ends_s = in_flight_s + TIMES.seconds(StepWork(decodes, context * decodes, ((prompt_tokens, before),)))
        added = [0.0]
        for tier, slack_s, pace_s in readers:
            if tier is REALTIME and pace_s > 0:
                # The reader wants the step's token a pace after the one in flight; waits are never caught up.
                wanted_s = max(slack_s, in_flight_s) + pace_s
                added.append(ends_s - wanted_s)
        return max(added)

    if tokens > min(LEAST_TOKENS, step_tokens - decodes):
        assert later_s(tokens) <= 1e-9
    if tokens < step_tokens - decodes:
        assert later_s(tokens + 9) > -1e-9, "as many as the readers leave time for, give or take a few"


def test_batch_prompts_leave_room_for_a_first_token_in_time():
    owner = pacer(aim_s=1.0)
    room = owner.batch_tokens(draft(10, 1000), 2000)
    assert TIMES.seconds(StepWork(10, 1000, ((room, 0),))) <= AIM_SHARE * 1.0 < 0.051
    assert 192 <= room <= 200
    assert owner.batch_tokens(draft(10, 1000), 50) == 50
