from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.policies.fcfs import FirstComeFirstServed
from andes_jax.scheduling.priority import columns_of
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request


def test_arrival_alone_counts():
    policy = FirstComeFirstServed()
    orders = [5, 2, 9, 1]
    sequences = [Sequence(make_request("a", [1], 1, tier=Tier(index % 3)), order) for index, order in enumerate(orders)]
    columns = columns_of(sequences, 1e6)
    assert policy.order(columns, 1e6).tolist() == [3, 1, 0, 2]
    assert policy.order(columns, 1e6, 2).tolist() == [3, 1]
    assert policy.explain(columns, 0.0)["arrival"].tolist() == orders


def test_newcomers_take_nothing():
    policy = FirstComeFirstServed()
    urgent, slow = (Sequence(make_request("a", [1], 1, tier=tier), 1) for tier in (Tier.REALTIME, Tier.BATCH))
    assert not policy.restless([9, 9, 9], [9, 9, 9])
    assert not policy.overtakes(urgent, slow, 1e6) and not policy.displaces(urgent, slow, 1e6)
    assert policy.takes_pages(slow, urgent)
