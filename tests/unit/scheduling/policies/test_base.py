"""andes_jax.scheduling.policies.base: what tier-blind policies have in common."""

from __future__ import annotations

from math import inf

import pytest

from andes_jax.request import Tier
from andes_jax.scheduling.policies import SIMULATED_NAMES, create_policy
from andes_jax.scheduling.policies.base import NOBODY, TierBlind
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request

BLIND = [name for name in SIMULATED_NAMES if name != "three_tier"]


@pytest.mark.parametrize("name", BLIND)
def test_nobody_passes_another_and_pages_are_for_whoever_ranks_higher_whatever_the_tiers(name):
    policy = create_policy(name, max_model_len=100)
    assert isinstance(policy, TierBlind) and not policy.spends and not policy.skips
    urgent = Sequence(make_request("urgent", [1], 5, tier=Tier.REALTIME), 2)
    other = Sequence(make_request("other", [1], 5, tier=Tier.BATCH), 1)
    assert not policy.overtakes(urgent, other, 1e6) and not policy.overtakes(other, urgent, 1e6)
    assert policy.takes_pages(other, urgent) and policy.takes_pages(urgent, other)


@pytest.mark.parametrize("name", ["fcfs", "sjf_oracle"])
def test_until_a_policy_says_otherwise_nobody_who_runs_is_disturbed(name):
    policy = create_policy(name, max_model_len=100)
    assert not policy.preempts and policy.look_s == inf
    assert policy.victims(None, None, None) is NOBODY and len(NOBODY) == 0  # type: ignore[arg-type]
