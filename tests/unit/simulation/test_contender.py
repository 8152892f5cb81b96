"""andes_jax.simulation.contender"""

from __future__ import annotations

import pytest

from andes_jax.failure import UsageError
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.priority import Weights
from andes_jax.simulation.contender import parse_contender, parse_contenders

LIMITS = SchedulerLimits(8, 512, 64, 64, 16)


def test_a_name_alone_changes_nothing():
    contender = parse_contender("fcfs")
    assert contender.label == "fcfs"
    assert contender.weights(Weights()) == Weights() and contender.limits(LIMITS) == LIMITS


def test_changes_go_where_they_belong_and_keep_their_kinds():
    contender = parse_contender("three_tier:beta=0:max_preempt=1:worst_first=1")
    assert contender.label == "three_tier:beta=0:max_preempt=1:worst_first=1"
    weights, limits = contender.weights(Weights()), contender.limits(LIMITS)
    assert weights.beta == 0.0 and weights.worst_first is True and weights.alpha == Weights().alpha
    assert limits.max_preempt == 1 and isinstance(limits.max_preempt, int) and limits.max_sequences == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lifo", "no policy 'lifo'; there are three_tier"),
        ("fcfs:bta=1", "no 'bta' to change; there are .*alpha"),
        ("fcfs:beta", "beta needs a number"),
        ("fcfs:beta=nan", "beta needs a number"),
        ("fcfs:page_tokens=1", "no 'page_tokens' to change"),
        ("fcfs,three_tier,fcfs", "fcfs is there twice"),
        ("three_tier:beta=0:beta=1", "beta is there twice"),
    ],
)
def test_what_does_not_exist_is_refused(words, said):
    with pytest.raises(UsageError, match=said):
        parse_contenders(words)


@pytest.mark.parametrize("value", ["-1", "1.5", "inf"])
def test_a_limit_out_of_bounds_is_refused(value):
    with pytest.raises(UsageError, match="max_preempt"):
        parse_contender(f"fcfs:max_preempt={value}").limits(LIMITS)


@pytest.mark.parametrize("change", [
    "lift_s=0", "horizon_s=-1", "work_power=0", "worst_first=2", "alpha=-1", "beta=-5", "relegate=inf", "lift_s=1e-300",
    "horizon_s=inf", "gamma=inf", "due_s=-1", "ahead_s=inf",
])  # fmt: skip
def test_a_weight_without_a_meaning_is_refused(change):
    with pytest.raises(UsageError, match=change.partition("=")[0]):
        parse_contender(f"three_tier:{change}").weights(Weights())
