"""The scheduler machine along histories that are the same every time, with proof that they lead to what is rare."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import pytest

from andes_jax.prediction.lengths import LengthHistory
from andes_jax.request import FinishReason, QoeTarget, Tier
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.policies import SIMULATED_NAMES, Weights
from tests.property.test_scheduler_machine import SEEN, Hopeful, SchedulerMachine

HISTORIES, HAPPENINGS = 16, 40  # of each policy; in each
SLOW, FAST = QoeTarget(0.1, 0.05), QoeTarget(1.0, 5.0)  # one token lasts 20 s, so that a reader soon is far ahead


def made(rng: random.Random, policy: str) -> SchedulerMachine:
    machine = SchedulerMachine()
    machine.make(
        policy=policy, positions=rng.choice([24, 28, 36, 60]), page_tokens=rng.choice([1, 2, 4]),
        slots=rng.randint(2, 4),
        extra=rng.randint(0, 8), chunk=rng.randint(2, 8), max_preempt=rng.choice([0, 0, 1, 2, 3]),
        cached=rng.random() < 0.5,
        host_pages=rng.choice([0, 2, 40]), reserve=rng.randint(0, 2), weights=Weights(relegate=rng.choice([0.0, 2.0])),
        predictor=rng.choice([LengthHistory, Hopeful, Hopeful]),
    )  # fmt: skip
    return machine


def happen(machine: SchedulerMachine, rng: random.Random) -> None:
    what, which = rng.random(), rng.randrange(100)
    if what < 0.2:
        machine.arrive(
            tiers=rng.choices(list(Tier), k=rng.randint(1, 4)), length=rng.choice([12, 7, 3, 1]),
            content=rng.randrange(16), max_tokens=rng.choice([12, 11, 5, 1, 0]), scored=rng.random() < 0.2,
            stop_ids=rng.choice([(), (), (3,)]), reader=rng.choice([SLOW, FAST, None]),
        )  # fmt: skip
    elif what < 0.55:
        machine.serve(rng.randint(1, 20), rng.random() < 0.7, rng.choice([0.0, 0.05, 0.2]))
    elif what < 0.65 and machine.in_flight < 2:
        machine.plan(copied=True)
    elif what < 0.7 and machine.in_flight:
        machine.commit()
    elif what < 0.76:
        machine.wait(rng.choice([0.1, 3.0, 70.0]))
    elif what < 0.8:  # a reader comes while batch work draws
        for tier, length in ((Tier.BATCH, 1), (Tier.REALTIME, 12)):
            machine.arrive([tier], length, which, max_tokens=11, scored=False, stop_ids=(), reader=FAST)
            machine.serve(5, ahead=True, seconds=0.05)
    elif what < 0.92 and machine.live():
        machine.pause_or_resume(which, rng.random() < 0.5)
    elif what < 0.96 and machine.live():
        stored = [place for place, id in enumerate(machine.live()) if machine.scheduler.roster.live[id].stored]
        machine.end(stored[0] if stored else which, FinishReason.CANCELLED)
    elif what < 0.98:
        machine.fail()
    elif machine.in_flight == 0:
        machine.restrict(which, rng.randint(0, 2))


@pytest.fixture
def denials():
    """Counts what the guarantee refuses."""
    may_seat, may_grow = Guarantee.may_seat, Guarantee.may_grow

    def seats(self, *arguments):
        answer = may_seat(self, *arguments)
        SEEN["denied a seat"] += not answer
        return answer

    def grows(self, *arguments):
        answer = may_grow(self, *arguments)
        SEEN["denied a page"] += not answer
        return answer

    with patch.object(Guarantee, "may_seat", seats), patch.object(Guarantee, "may_grow", grows):
        yield


def test_histories_keep_the_machines_rules_and_reach_what_is_rare(denials):
    seen = {}
    for policy in SIMULATED_NAMES:
        SEEN.clear()
        for seed in range(HISTORIES):
            rng = random.Random(f"{policy} {seed}")
            machine = made(rng, policy)
            for _ in range(HAPPENINGS):
                happen(machine, rng)
                machine.whole()
                machine.priorities_grow()
            machine.teardown()
        seen[policy] = SEEN.copy()
    everywhere = sum(seen.values(), Counter())
    rare = {"kept", "saved", "loaded", "recomputed", "ended while stored", "denied a seat", "denied a page"}
    assert not rare - everywhere.keys(), seen
    own = {"saved", "recomputed", "yielded", "displaced by an equal's need", "left out in haste"}
    assert not own - (+seen["three_tier"]).keys(), seen
