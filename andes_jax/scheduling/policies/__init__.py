"""Policies by name."""

from __future__ import annotations

from andes_jax.scheduling.policies.base import Policy
from andes_jax.scheduling.policies.fcfs import FirstComeFirstServed
from andes_jax.scheduling.policies.three_tier import ThreeTier
from andes_jax.scheduling.priority import Weights

NAMES = (FirstComeFirstServed.name, ThreeTier.name)


def create_policy(name: str, *, max_model_len: int, weights: Weights | None = None) -> Policy:
    """The policy of that name; raises ValueError, naming those there are, for another name."""
    if name == FirstComeFirstServed.name:
        return FirstComeFirstServed()
    if name == ThreeTier.name:
        return ThreeTier(max_model_len, weights)
    raise ValueError(f"unknown policy {name!r}; there are {', '.join(NAMES)}")


__all__ = ["NAMES", "Policy", "create_policy"]
