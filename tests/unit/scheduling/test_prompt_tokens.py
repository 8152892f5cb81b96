from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.request import Tier
from andes_jax.scheduling.pacing import LEAST_TOKENS
from andes_jax.scheduling.prompt_tokens import MOST_WITHOUT, BatchTurns, PromptTokens
from tests.fakes import Rig, expected_ids, make_request
from tests.unit.scheduling.parts import known_times

REALTIME, STREAMING, BATCH = Tier


def test_others_come_first_and_leave_batch_prompts_the_rest_of_their_part():
    tokens = PromptTokens(200, 64)
    assert tokens.left(BATCH) == 64 and tokens.left(REALTIME) == tokens.left(STREAMING) == 200
    tokens.take(REALTIME, 40)
    assert tokens.left(BATCH) == 24 and tokens.left(STREAMING) == 160
    tokens.take(BATCH, 24)
    assert tokens.left(BATCH) == 0 and tokens.left(REALTIME) == 136 and tokens.batch_taken == 24


def test_in_their_turn_their_part_is_kept_for_them():
    tokens = PromptTokens(200, 0, turn=True)
    assert tokens.left(BATCH) == LEAST_TOKENS and tokens.left(REALTIME) == 200 - LEAST_TOKENS
    tokens.take(REALTIME, 200 - LEAST_TOKENS)
    assert tokens.left(REALTIME) == 0 and tokens.left(BATCH) == LEAST_TOKENS


@given(
    st.integers(0, 500),
    st.integers(0, 500),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(list(Tier)), st.integers(0, 300))),
)
def test_nobody_gets_more_than_there_is(most, batch, turn, wishes):
    tokens, spent = PromptTokens(most, batch, turn=turn), 0
    for tier, wish in wishes:
        taken = min(wish, tokens.left(tier))
        assert taken >= 0
        tokens.take(tier, taken)
        spent += taken
    assert spent <= most and tokens.batch_taken <= max(batch, LEAST_TOKENS if turn else 0)


def test_a_turn_comes_after_steps_without_and_only_where_somebody_wants_it():
    turns = BatchTurns()
    for wanted in (False, True):
        for _ in range(MOST_WITHOUT):
            tokens = turns.tokens(100, 0)
            assert tokens.left(BATCH) == 0
            turns.spent(tokens, wanted=wanted)
    tokens = turns.tokens(100, 0)
    assert tokens.left(BATCH) == 50 == tokens.left(REALTIME)  # half: a step in which nobody else may run could be empty
    tokens.take(BATCH, 9)
    turns.spent(tokens, wanted=True)
    assert turns.tokens(100, 0).left(BATCH) == 0


def test_a_turn_that_nobody_could_use_is_over():
    turns = BatchTurns()
    for _ in range(MOST_WITHOUT):
        turns.spent(turns.tokens(100, 0), wanted=True)
    turns.spent(turns.tokens(100, 0), wanted=True)
    assert turns.tokens(100, 0).left(REALTIME) == 100


@pytest.mark.parametrize(
    "step_tokens, prompt",
    [(264, 32), (264, 64), (264, 100), (264, 262), (264, 264), (128, 126), (72, 68), (66, 64), (64, 63), (64, 64)],
)
@pytest.mark.parametrize("step_s", [0.005, 0.02])
def test_batch_work_gets_on_beside_prompts_that_never_end(step_tokens, prompt, step_s):
    """Others fill the part of each step that batch prompts may have, or all of it before anybody looks at those."""
    times = known_times(step=step_s, prefill=0.00005)
    rig = Rig(
        policy="three_tier", slots=8, pages=2000, step_tokens=step_tokens, prefill_chunk=256, max_model_len=512,
        prefix=False, times=times,
    )  # fmt: skip
    batch = make_request("batch", range(90), 20, tier=BATCH)
    rig.add(batch)
    for number in range(400):
        if "batch" not in rig.scheduler.roster.live:
            break
        rig.now += 0.03
        rig.add(make_request(f"r{number}", [number % 97] * prompt, 2, tier=REALTIME, arrived_s=rig.now))
        rig.step()
    assert tuple(rig.got["batch"]) == expected_ids(batch)


def test_a_batch_prompt_that_lacks_tokens_is_said_to():
    rig = Rig(
        policy="three_tier", slots=8, pages=2000, step_tokens=264, prefill_chunk=256, max_model_len=512,
        times=known_times(step=0.02, prefill=0.00005),
    )  # fmt: skip
    rig.add(make_request("r0", [1] * 100, 2, tier=REALTIME), make_request("batch", range(90), 2, tier=BATCH))
    rig.step()
    rig.now = 0.03
    rig.add(make_request("r1", [2] * 100, 2, tier=REALTIME, arrived_s=rig.now))
    rig.step()
    (wait,) = rig.scheduler.journal.explain("batch")["waits"]
    assert wait["for"].get("tokens") == pytest.approx(0.03)
    rig.run()


@pytest.mark.parametrize("step_tokens, newcomers, prompt", [(264, 270, 900), (264, 264, 900), (72, 72, 300)])
@pytest.mark.parametrize("tier", [REALTIME, STREAMING])
def test_a_begun_prompt_gets_on_beside_prompts_that_never_end(step_tokens, newcomers, prompt, tier):
    """Realtime newcomers fill every step and go before it, in its own tier since their readers are not yet late."""
    rig = Rig(
        policy="three_tier", slots=8, pages=20000, step_tokens=step_tokens, prefill_chunk=256, max_model_len=1024,
        prefix=False, times=known_times(step=0.02, prefill=0.00005),
    )  # fmt: skip
    begun = make_request("begun", [1] * prompt, 20, tier=tier)
    rig.add(begun)
    rig.step()
    for number in range(700):
        if "begun" not in rig.scheduler.roster.live:
            break
        rig.now += 0.03
        rig.add(make_request(f"r{number}", [number % 97] * newcomers, 2, tier=REALTIME, arrived_s=rig.now))
        rig.step()
    assert tuple(rig.got["begun"]) == expected_ids(begun)


def test_batch_work_that_waited_long_does_not_hide_a_reader():
    """More of it than candidates is lifted above every reader, and may have few tokens of a step."""
    rig = Rig(
        policy="three_tier", slots=8, pages=20000, step_tokens=264, prefill_chunk=256, max_model_len=1024,
        prefix=False, times=known_times(step=0.02, prefill=0.00005),
    )  # fmt: skip
    rig.add(*(make_request(f"b{number}", [number % 97] * 900, 20, tier=BATCH) for number in range(200)))
    rig.now = 1000.0
    rig.add(make_request("urgent", [5] * 20, 4, tier=REALTIME, arrived_s=rig.now))
    for _ in range(30):
        rig.now += 0.03
        rig.step()
    assert "urgent" in rig.got


def test_who_comes_when_nobody_waits_is_not_told_of_those_who_waited_before():
    rig = Rig(slots=4, pages=200, step_tokens=32)
    rig.add(make_request("a", [1] * 40, 20), make_request("b", [2] * 40, 20))
    rig.now = 0.5
    for _ in range(12):
        rig.step()
    assert not rig.scheduler.roster.waiting
    rig.now = 1.0
    rig.add(make_request("c", [3] * 4, 4, arrived_s=0.9))
    rig.step()
    (wait,) = rig.scheduler.journal.explain("c")["waits"]
    assert set(wait["for"]) <= {"nothing"}


def test_who_lacks_a_slot_is_not_said_to_lack_tokens():
    rig = Rig(slots=1, pages=200, step_tokens=8, prefill_chunk=8, max_model_len=128)
    rig.add(make_request("a", [1] * 40, 2), make_request("b", [2] * 4, 2))
    rig.step()
    rig.now = 1.0
    rig.step()
    (wait,) = rig.scheduler.journal.explain("b")["waits"]
    assert wait["for"] == {"slots": 1.0}


@pytest.mark.parametrize("slots, newcomers", [(64, 256), (64, 300), (8, 264)])
@pytest.mark.parametrize("tier", [STREAMING, BATCH])
def test_a_begun_prompt_gets_on_beside_its_own_kind_that_waited_long(slots, newcomers, tier):
    """Enough of them to fill every step, all of them lifted."""
    rig = Rig(
        policy="three_tier", slots=slots, pages=40000, step_tokens=264, prefill_chunk=256, max_model_len=1024,
        prefix=False, times=known_times(step=0.02, prefill=0.00005),
    )  # fmt: skip
    begun = make_request("begun", [1] * 900, 4, tier=tier)
    rig.add(begun)
    rig.step()
    rig.now = 130.0
    for number in range(100):
        if "begun" not in rig.scheduler.roster.live:
            break
        rig.now += 0.03
        for place in range(64 - len(rig.scheduler.roster.waiting)):
            name = f"{number}-{place}"
            rig.add(make_request(name, [number % 97] * newcomers, 1, tier=tier, arrived_s=rig.now - 130))
        rig.step()
    assert tuple(rig.got["begun"]) == expected_ids(begun)


def test_a_lone_prompt_has_the_whole_step_even_when_it_is_overdue():
    rig = Rig(
        policy="three_tier", slots=8, pages=20000, step_tokens=2048, prefill_chunk=2048, max_model_len=8192,
        prefix=False, times=known_times(step=0.02, prefill=0.00005),
    )  # fmt: skip
    rig.add(make_request("begun", [1] * 8000, 4, tier=STREAMING))
    rig.step()
    for number in range(8):  # each fills a step, and the ninth without a token begins its turn
        rig.now += 0.03
        rig.add(make_request(f"r{number}", [number] * 2048, 1, tier=REALTIME, arrived_s=rig.now))
        rig.step()
    begun = rig.scheduler.roster.live["begun"]
    shares = []
    for _ in range(2):
        before = begun.computed
        rig.step()
        shares.append(begun.computed - before)
    assert min(shares) >= 2047  # beside one reply's token


@pytest.mark.parametrize("step_tokens", [32, 64])
def test_who_waits_for_others_is_not_said_to_lack_tokens(step_tokens):
    """Whether the step is full or not, it could not be finished for certain beside those who run."""
    rig = Rig(
        policy="three_tier", slots=8, pages=300, page_tokens=4, step_tokens=step_tokens, prefill_chunk=32,
        max_model_len=1100, max_preempt=0, prefix=False, times=known_times(step=0.02, prefill=0.00005),
    )  # fmt: skip
    rig.add(make_request("begun", [1] * 900, 4, tier=STREAMING))
    rig.step()
    rig.add(make_request("big", [2] * 600, 4, tier=REALTIME))
    for _ in range(20):
        rig.now += 0.1
        rig.step()
    (wait,) = rig.scheduler.journal.explain("big")["waits"]
    assert wait["for"]["others"] == pytest.approx(sum(wait["for"].values()), abs=0.11)
