"""Policies by name."""

from __future__ import annotations

from andes_jax.scheduling.policies.andes_paper import AndesPaper
from andes_jax.scheduling.policies.base import Moment, Policy
from andes_jax.scheduling.policies.fcfs import FirstComeFirstServed
from andes_jax.scheduling.policies.round_robin import RoundRobin
from andes_jax.scheduling.policies.sjf_oracle import ShortestJobFirst
from andes_jax.scheduling.policies.three_tier import ThreeTier
from andes_jax.scheduling.priority import Weights

NAMES = (ThreeTier.name, FirstComeFirstServed.name, RoundRobin.name, AndesPaper.name)
SIMULATED_NAMES = (*NAMES, ShortestJobFirst.name)  # with those that need to know what nobody can


def create_policy(name: str, *, max_model_len: int, weights: Weights | None = None) -> Policy:
    """The policy of that name; raises ValueError, naming those there are, for another name."""
    if name == ThreeTier.name:
        return ThreeTier(max_model_len, weights)
    for kind in (FirstComeFirstServed, RoundRobin, AndesPaper, ShortestJobFirst):
        if name == kind.name:
            return kind()
    raise ValueError(f"unknown policy {name!r}; there are {', '.join(SIMULATED_NAMES)}")


__all__ = ["NAMES", "SIMULATED_NAMES", "Moment", "Policy", "Weights", "create_policy"]
