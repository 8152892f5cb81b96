from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.request import Tier
from andes_jax.scheduling.priority import Weights, best_first, columns_of, lifted_tier, priority
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request


def one(tier: Tier, arrived_s: float, prompt: int = 10, max_tokens: int = 11) -> Sequence:
    return Sequence(make_request("a", range(prompt), max_tokens, tier=tier, arrived_s=arrived_s), 1)


def score(sequence: Sequence, now: float, weights: Weights) -> float:
    return float(priority(columns_of([sequence], now), now, weights, 100)[0])


def test_the_formula_by_hand():
    weights = Weights(0.6, 0.3, 0.1, (1.0, 0.5, 0.0), (0.2, 0.3, 10.0))
    # 20 positions of at most 100 to compute: the resource term is 0.8
    assert np.isclose(score(one(Tier.REALTIME, 5.0), 5.1, weights), 0.6 + 0.3 * 0.5 + 0.1 * 0.8)
    assert np.isclose(score(one(Tier.STREAMING, 5.0), 5.0, weights), 0.3 + 0.08)
    assert np.isclose(score(one(Tier.BATCH, 0.0), 1000.0, weights), 0.3 * 100 + 0.08), "waiting has no upper bound"


def test_cheaper_work_scores_higher_and_all_work_counts_as_at_most_one():
    weights = Weights()
    cheap, dear = one(Tier.BATCH, 0.0, 5), one(Tier.BATCH, 0.0, 50)
    assert score(cheap, 0.0, weights) > score(dear, 0.0, weights)
    assert score(one(Tier.BATCH, 0.0, 500), 0.0, weights) == 0.0


def test_clocks_that_disagree_do_not_make_waits_negative():
    assert score(one(Tier.BATCH, 9.0, 500), 0.0, Weights()) == 0.0


def test_each_long_wait_lifts_one_tier():
    weights = Weights(lift_s=60.0)
    waits = (-1.0, 0.0, 59.9, 60.0, 119.9, 120.0, 1e6)
    assert [lifted_tier(Tier.BATCH, wait, weights) for wait in waits] == [2, 2, 2, 1, 1, 0, 0]


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
