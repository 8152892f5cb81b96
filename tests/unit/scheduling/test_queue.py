from __future__ import annotations

import random

import pytest

from andes_jax.request import Tier
from andes_jax.scheduling.priority import work_of
from andes_jax.scheduling.queue import WaitingQueue
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request


def test_columns_follow_the_rows_through_adds_and_removes():
    rng = random.Random(3)
    queue = WaitingQueue()
    inside: list[Sequence] = []
    for number in range(500):
        if inside and rng.random() < 0.4:
            queue.remove(inside.pop(rng.randrange(len(inside))))
        else:
            request = make_request(f"r{number}", range(1 + number % 7), 3, tier=Tier(number % 3), arrived_s=number / 2)
            sequence = Sequence(request, number)
            inside.append(sequence)
            queue.add(sequence)
        assert len(queue) == len(inside) and set(queue.rows) == set(inside)
    columns = queue.columns
    for row, sequence in enumerate(queue.rows):
        assert sequence.row == row
        values = tuple(float(column[row]) for column in columns)
        assert values == (
            sequence.tier, sequence.request.arrived_s, sequence.queued_s, sequence.order, work_of(sequence)
        )  # fmt: skip
    assert queue.per_tier == [sum(sequence.tier is tier for sequence in inside) for tier in Tier]


def test_who_does_not_wait_cannot_be_removed():
    queue = WaitingQueue()
    sequence = Sequence(make_request("a", [1], 1), 1)
    queue.add(sequence)
    queue.remove(sequence)
    with pytest.raises(ValueError, match="does not wait"):
        queue.remove(sequence)
