from __future__ import annotations

from andes_jax.scheduling.budget import PreemptionBudget


def test_a_debt_is_paid_off_by_a_share_of_the_time_that_passes():
    budget = PreemptionBudget(0.25)
    assert budget.allows(10.0)
    budget.spend(2.0, 10.0)
    assert not budget.allows(10.0) and not budget.allows(17.9)
    assert budget.allows(18.0), "2 s at a quarter take 8 s"


def test_time_without_debt_is_not_saved_up():
    budget = PreemptionBudget(0.5)
    assert budget.allows(1000.0)
    budget.spend(1.0, 1000.0)
    assert not budget.allows(1001.9) and budget.allows(1002.0)


def test_debts_add_up_and_one_may_exceed_the_budget():
    budget = PreemptionBudget(0.5)
    budget.spend(10.0, 0.0)
    budget.spend(10.0, 4.0)
    assert not budget.allows(39.9) and budget.allows(40.0)


def test_the_average_spent_is_the_share():
    budget, spent, now = PreemptionBudget(0.1), 0.0, 0.0
    while now < 1000.0:
        if budget.allows(now):
            budget.spend(0.7, now)
            spent += 0.7
        now += 0.01
    assert 99 < spent < 101


def test_a_clock_that_steps_back_pays_nothing():
    budget = PreemptionBudget(0.5)
    budget.spend(1.0, 10.0)
    assert not budget.allows(5.0) and not budget.allows(6.9) and budget.allows(7.0)


def test_without_a_share_one_preemption_is_the_last():
    budget = PreemptionBudget(0.0)
    budget.spend(0.001, 0.0)
    assert not budget.allows(1e9)
