from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.policies.fcfs import FirstComeFirstServed
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request
from tests.unit.scheduling.parts import at, columns


def test_arrival_alone_counts():
    policy = FirstComeFirstServed()
    orders = [5, 2, 9, 1]
    those = columns(
        [Tier(index % 3) for index in range(4)], order=orders, slack_s=[9, 1, -5, 3], remaining=[1, 9, 1, 9]
    )
    assert policy.admit_order(those, at(1e6)).tolist() == [3, 1, 0, 2]
    assert policy.admit_order(those, at(1e6), 2).tolist() == [3, 1]
    assert policy.keep_order(those, at(1e6)).tolist() == [3, 1, 0, 2]
    assert policy.explain(those, at(0.0))["arrival"].tolist() == orders


def test_newcomers_take_nothing():
    policy = FirstComeFirstServed()
    urgent, slow = (Sequence(make_request("a", [1], 1, tier=tier), 1) for tier in (Tier.REALTIME, Tier.BATCH))
    assert not policy.preempts and not policy.spends
    assert policy.victims(columns([Tier.REALTIME]), columns([Tier.BATCH] * 3), at(1e6, used=1.0)).tolist() == []
    assert not policy.overtakes(urgent, slow, 1e6)
    assert policy.takes_pages(slow, urgent)
