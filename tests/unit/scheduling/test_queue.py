from __future__ import annotations

import random

import pytest

from andes_jax.prediction.lengths import LengthHistory
from andes_jax.request import Tier
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.queue import WaitingQueue
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request


def test_rows_follow_the_members_through_adds_and_removes():
    rng = random.Random(3)
    queue, ledger = WaitingQueue(), Ledger(LengthHistory())
    inside: list[Sequence] = []
    for number in range(1000):
        if inside and rng.random() < 0.4:
            gone = inside.pop(rng.randrange(len(inside)))
            queue.remove(gone)
            assert gone.place is None
            ledger.leave(gone)
        else:
            request = make_request(f"r{number}", range(1 + number % 7), 3, tier=Tier(number % 3), arrived_s=number / 2)
            sequence = Sequence(request, number)
            ledger.enter(sequence)
            inside.append(sequence)
            queue.add(sequence)
        assert len(queue) == len(inside) and set(queue.members) == set(inside) and bool(queue) == bool(inside)
        assert queue.rows.tolist() == [sequence.row for sequence in queue.members]
    assert len(inside) > 128, "the queue has grown twice"
    for place, sequence in enumerate(queue.members):
        assert sequence.place == place
    columns = ledger.columns(queue.rows, 0.0)
    assert columns.order.tolist() == [sequence.order for sequence in queue.members]
    assert columns.tier.tolist() == [sequence.tier for sequence in queue.members]
    assert queue.per_tier == [sum(sequence.tier is tier for sequence in inside) for tier in Tier]


def test_who_does_not_wait_cannot_be_removed():
    queue, ledger = WaitingQueue(), Ledger(LengthHistory())
    sequence = Sequence(make_request("a", [1], 1), 1)
    with pytest.raises(AssertionError):
        queue.add(sequence)  # it has no row
    ledger.enter(sequence)
    queue.add(sequence)
    queue.remove(sequence)
    with pytest.raises(ValueError, match="does not wait"):
        queue.remove(sequence)
