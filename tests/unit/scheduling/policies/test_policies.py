from __future__ import annotations

import numpy as np
import pytest

from andes_jax.request import Tier
from andes_jax.scheduling.policies import NAMES, SIMULATED_NAMES, Weights, create_policy
from tests.unit.scheduling.parts import at, columns


def test_every_name_makes_its_policy():
    assert set(NAMES) == {"fcfs", "three_tier", "round_robin", "andes_paper"}
    assert set(SIMULATED_NAMES) - set(NAMES) == {"sjf_oracle"}, "nobody serves with what nobody can know"
    for name in SIMULATED_NAMES:
        assert create_policy(name, max_model_len=10).name == name


def test_weights_reach_the_policy_that_has_some():
    weights = Weights(beta=7.0)
    assert create_policy("three_tier", max_model_len=10, weights=weights).weights is weights


def test_other_names_are_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"'lifo'.*three_tier, fcfs, round_robin, andes_paper, sjf_oracle"):
        create_policy("lifo", max_model_len=10)


@pytest.mark.parametrize("name", SIMULATED_NAMES)
def test_orders_are_total_and_pure_and_a_limit_gives_their_head(name):
    policy, rng = create_policy(name, max_model_len=500), np.random.default_rng(5)
    count = 60
    values = dict(
        arrived_s=rng.uniform(0, 100, count), queued_s=rng.uniform(0, 100, count), order=rng.permutation(count),
        context=rng.integers(1, 200, count), generated=rng.integers(0, 3, count) * 40,
        remaining=rng.integers(1, 5, count) * 30, to_compute=rng.integers(1, 99, count),
        slack_s=rng.choice([-3.0, 0.5, 9.0, np.inf], count), pace_s=rng.choice([0.0, 0.2], count),
        held_s=rng.integers(0, 5, count),
    )  # fmt: skip
    those = columns(rng.integers(0, 3, count), **values)
    moment = at(100.0, step=10, used=0.95)
    everybody = policy.admit_order(those, moment).tolist()
    assert sorted(everybody) == list(range(count))
    for limit in (1, 7, 59, 60, 100):
        assert policy.admit_order(those, moment, limit).tolist()[:limit] == everybody[:limit]
    assert sorted(policy.keep_order(those, moment).tolist()) == list(range(count))
    shuffled = rng.permutation(count)
    again = columns(those.tier[shuffled], **{key: np.asarray(each)[shuffled] for key, each in values.items()})
    assert shuffled[policy.admit_order(again, moment)].tolist() == everybody, "the order of the rows does not count"
    assert shuffled[policy.keep_order(again, moment)].tolist() == policy.keep_order(those, moment).tolist()
    one = columns([Tier.REALTIME], slack_s=0.0, pace_s=0.2, remaining=1)
    chosen = policy.victims(one, those, moment).tolist()
    assert len(set(chosen)) == len(chosen) and set(chosen) <= set(range(count))
    assert bool(chosen) == policy.preempts
    assert all(len(value) == count for value in policy.explain(those, moment).values())
