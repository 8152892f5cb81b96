from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.request import Tier
from andes_jax.scheduling.priority import Weights, best_first, cost_of, lifted_tier, need_of, terms, work_of
from tests.unit.scheduling.parts import columns

REALTIME, STREAMING, BATCH = Tier
# The plain formula; what else there is has its own tests.
PLAIN = {"horizon_s": 4.0, "work_power": 1.0, "relegate": 0.0}
WEIGHTS = Weights(0.6, 0.3, 0.1, allowed_wait_s=(60.0, 60.0, 600.0), **PLAIN)


def score(now: float, weights: Weights | None = None, longest: int = 128, *, tier=REALTIME, **values) -> float:
    return float(terms(columns([tier], **values), now, weights or WEIGHTS, longest).priority[0])


def test_the_formula_by_hand():
    # Work: 44 tokens to draw and 200 of a prompt at a tenth each, 64 in all; the reader needs the next token now.
    found = terms(columns([REALTIME], remaining=44, to_compute=200, slack_s=0.0), 30.0, WEIGHTS, 128)
    assert found.interactivity == pytest.approx(0.6 * 64 / (64 + 64))
    assert found.waited == pytest.approx(0.3 * 30 / 60)
    assert found.resource == pytest.approx(0.1 * (1 - 64 / 128))
    assert found.priority == pytest.approx(0.3 + 0.15 + 0.05)


def test_each_weight_scales_its_own_term():
    values = dict(remaining=64, slack_s=2.0, queued_s=5.0)
    # Half the horizon is left: need 1/2, interactivity 32 / (32 + 64)
    assert score(11.0, Weights(1, 0, 0, (4.0, 9.0, 9.0), **PLAIN), **values) == pytest.approx(1 / 3)
    assert score(11.0, Weights(0, 1, 0, (4.0, 9.0, 9.0)), **values) == pytest.approx(6 / 4)
    assert score(11.0, Weights(0, 0, 1, (4.0, 9.0, 9.0)), **values) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("slack_s", "need"),
    [(-5.0, 1.0), (0.0, 1.0), (1.0, 0.75), (2.0, 0.5), (3.9, 0.025), (3.96, 0.02), (4.0, 0.02), (inf, 0.02)],
)
def test_need_falls_as_slack_grows(slack_s, need):
    assert need_of(np.array([slack_s]), 4.0)[0] == pytest.approx(need)


def test_allowed_waits_are_the_tiers_own_and_waiting_has_no_upper_bound():
    weights = Weights(0, 1, 0, (1.0, 10.0, 100.0))
    waited = [score(1000.0, weights, tier=tier) for tier in Tier]
    assert waited == pytest.approx([1000, 100, 10])


def test_cheaper_work_scores_higher_and_all_work_counts_as_at_most_one():
    assert score(0.0, remaining=5) > score(0.0, remaining=50) > score(0.0, remaining=50, to_compute=40)
    found = terms(columns([BATCH, BATCH], remaining=[128, 5000]), 0.0, WEIGHTS, 128)
    assert found.resource.tolist() == [0.0, 0.0]


def test_prompt_tokens_count_a_tenth():
    assert work_of(columns([BATCH] * 2, remaining=[7, 7], to_compute=[0, 50])).tolist() == pytest.approx([7, 12])


def test_a_cost_is_a_share_of_slots_and_of_the_cache_for_as_long_as_the_work_lasts():
    """With 100 tokens of cache for each slot, a mean context of 300 takes the room of three beside its own slot."""
    values = columns([BATCH] * 3, remaining=[20, 200, 20], to_compute=[0, 0, 50], context=[290, 200, 290])
    assert cost_of(values, 100.0).tolist() == pytest.approx([20 * 4, 200 * 4, 25 * 4])
    assert cost_of(values, inf).tolist() == pytest.approx([20, 200, 25]), "where memory never runs short"


def test_of_two_with_the_same_work_the_shorter_context_goes_first_where_memory_is_short():
    short, long = (
        terms(columns([REALTIME], remaining=50, context=context, slack_s=0.0), 0.0, WEIGHTS, 4096, 64.0)
        for context in (50, 500)
    )
    assert short.interactivity[0] > long.interactivity[0] and short.resource[0] > long.resource[0]


def test_clocks_that_disagree_do_not_make_waits_negative():
    assert terms(columns(queued_s=9.0), 0.0, WEIGHTS, 128).waited[0] == 0.0


def test_worst_first_looks_at_need_alone():
    weights = Weights(1, 0, 0, worst_first=True, horizon_s=4.0)
    values = dict(slack_s=[-4.0, 0.0, 4.0, inf, -1e9])
    cheap, dear = (terms(columns([REALTIME] * 5, remaining=work, **values), 0.0, weights, 128) for work in (1, 100))
    assert cheap.interactivity.tolist() == dear.interactivity.tolist()
    assert cheap.interactivity[:3].tolist() == pytest.approx([1 / (1 + np.exp(-1)), 0.5, 1 / (1 + np.e)])
    assert cheap.interactivity[3] == pytest.approx(0.0) and cheap.interactivity[4] == pytest.approx(1.0)


@given(
    st.sampled_from(Tier), st.floats(-20, 20) | st.just(inf), st.integers(1, 5000), st.integers(0, 5000),
    st.floats(0, 1e4), st.floats(0.01, 1e3), st.booleans(),
)  # fmt: skip
def test_the_priority_of_who_waits_grows_with_time(tier, slack_s, remaining, to_compute, now, later_s, worst_first):
    weights = Weights(worst_first=worst_first, relegate=0.0)
    before, after = (
        terms(columns([tier], remaining=remaining, to_compute=to_compute, slack_s=slack_s - passed), now + passed,
              weights, 4096)
        for passed in (0.0, later_s)
    )  # fmt: skip
    assert after.priority[0] > before.priority[0]
    assert after.interactivity[0] >= before.interactivity[0]
    assert after.resource[0] == before.resource[0]


def test_the_wait_is_the_one_that_lasts_not_those_before_it():
    found = terms(columns([REALTIME], arrived_s=0.0, queued_s=90.0), 120.0, WEIGHTS, 128)
    assert found.waited == pytest.approx(0.3 * 30 / 60)


def test_work_counts_by_its_power():
    squared, root = (replace(Weights(1, 0, 0, **PLAIN), work_power=power) for power in (2.0, 0.5))
    assert score(0.0, squared, remaining=128, slack_s=0.0) == pytest.approx(1 / (1 + 4))
    assert score(0.0, root, remaining=256, slack_s=0.0) == pytest.approx(1 / (1 + 2))


def test_a_reader_who_has_lost_much_already_needs_less():
    """20 tokens at 0.5 s are 10 s of reading; 5 s late on them, the score has fallen to a half."""
    weights = replace(Weights(1, 0, 0, **PLAIN), relegate=1.0)
    values = dict(pace_s=0.5, remaining=20, generated=0)
    need = 10 / (10 + 2 * 5)
    assert score(0.0, weights, slack_s=-5.0, **values) == pytest.approx(need / (need + 20 / 64))
    assert score(0.0, weights, slack_s=0.0, **values) == pytest.approx(1 / (1 + 20 / 64))
    assert score(0.0, weights, slack_s=-5.0, remaining=20) == pytest.approx(1 / (1 + 20 / 64)), "nobody reads along"
    longer = dict(values, remaining=10, generated=10)
    assert score(0.0, weights, slack_s=-5.0, **longer) == pytest.approx(need / (need + 10 / 64))


def test_each_long_wait_lifts_one_tier():
    weights = Weights(lift_s=60.0)
    waits = (-1.0, 0.0, 59.9, 60.0, 119.9, 120.0, 1e6)
    assert [lifted_tier(BATCH, wait, weights) for wait in waits] == [2, 2, 2, 1, 1, 0, 0]


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_best_first_is_the_head_of_the_full_sort(scores, limit, random):
    order = list(range(len(scores)))
    random.shuffle(order)
    expected = sorted(range(len(scores)), key=lambda row: (-scores[row], order[row]))
    assert best_first(np.array(scores), np.array(order, dtype=float), limit).tolist() == expected[:limit]
    assert best_first(np.array(scores), np.array(order, dtype=float)).tolist() == expected
