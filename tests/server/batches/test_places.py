"""Places for replies, and how many a call needs."""

from __future__ import annotations

import asyncio

import pytest

from andes_jax.batch_lines import BatchLine
from andes_jax.engine.statistics import Limits
from server.batches.places import Places, places_at, replies_to


@pytest.mark.parametrize(
    ("slots", "most_live", "places"),
    [(32, 1056, 40), (8, 1032, 10), (8, 8, 6), (8, 10, 7), (8, 12, 9), (1, 1, 1), (1, 2, 1), (1, 1025, 2), (2, 3, 2)],
)
def test_an_engine_s_slots_and_a_few_more_but_never_the_room_of_others(slots, most_live, places):
    assert places_at(Limits(2048, slots, 10_000, most_live)) == places


@pytest.mark.parametrize(
    ("body", "replies"),
    [
        ({}, 1),
        ({"prompt": "hi"}, 1),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": [[1], [2], [3]], "n": 4}, 12),
        ({"prompt": [], "n": 2}, 2),
        ({"n": -3}, 1),
        ({"n": "7", "prompt": {}}, 1),
        ({"n": None}, 1),
    ],
)
def test_replies_are_counted_in_bodies_of_all_kinds(body, replies):
    assert replies_to(BatchLine(1, "a", "/v1/completions", body)) == replies


async def test_places_are_given_in_turn():
    places = Places(4)
    assert await places.take(3) == 3
    got: list[int] = []

    async def take(count):
        got.append(await places.take(count))

    waiting = [asyncio.create_task(take(count)) for count in (9, 1)]
    await asyncio.sleep(0.01)
    assert got == [], "a small one passed a large one"
    places.give_back(2)
    await asyncio.sleep(0.01)
    assert got == []
    places.give_back(1)
    await asyncio.sleep(0.01)
    assert got == [4] and places.free == 0, "more than all is all"
    places.give_back(4)
    await asyncio.gather(*waiting)
    assert got == [4, 1] and places.free == 3


async def test_whoever_gives_up_takes_none():
    places = Places(1)
    await places.take(1)
    waiting = [asyncio.create_task(places.take(1)) for _ in range(3)]
    await asyncio.sleep(0)
    for each in waiting[:2]:
        each.cancel()
    await asyncio.sleep(0)
    places.give_back(1)
    assert await waiting[2] == 1 and places.free == 0
