from __future__ import annotations

import pytest

from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.scheduling.paging import GROWTH_CAP, GROWTH_SHARE, Paging
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request

PAGE = 4


def paging(pages: int = 256) -> Paging:
    prefix = PrefixCache(PAGE)
    return Paging(PagePool(pages, prefix), prefix, PAGE)


def seated(owner: Paging, prompt: list[int], max_tokens: int = 200, **sampling) -> Sequence:
    sequence = Sequence(make_request("a", prompt, max_tokens, **sampling), 1)
    assert owner.seat(sequence, owner.find(sequence), sequence.known)
    return sequence


def computed(owner: Paging, prompt: list[int]) -> Sequence:
    sequence = seated(owner, prompt)
    sequence.computed = sequence.known
    owner.publish(sequence)
    return sequence


@pytest.mark.parametrize(("length", "hit"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (40, 12)])
def test_a_hit_never_covers_the_last_known_token(length, hit):
    owner = paging()
    computed(owner, list(range(12)))
    sequence = seated(owner, list(range(length)))
    assert (sequence.cached, sequence.computed, sequence.first_cached) == (hit, hit, hit)
    assert len(sequence.pages) == -(-length // PAGE) and len(set(sequence.pages)) == len(sequence.pages)
    assert sequence.table == tuple(sequence.pages)


def test_only_computed_tokens_with_known_ids_are_published():
    owner = paging()
    sequence = seated(owner, list(range(10)))
    sequence.computed = 7
    owner.publish(sequence)
    assert seated(owner, list(range(10))).cached == 4
    sequence.computed, sequence.known = 12, 13  # two drawn tokens whose ids are on their way
    owner.publish(sequence)
    assert seated(owner, list(range(10)) + [1, 1, 1, 1]).cached == 8


def test_hits_are_counted_once_a_request_however_often_it_is_seated():
    owner = paging()
    computed(owner, list(range(12)))
    sequence = seated(owner, list(range(10)))
    assert (owner.hit_tokens, owner.lookup_tokens, owner.prompt_tokens) == (8, 22, 22)
    for _ in range(3):
        sequence.computed = sequence.known
        owner.publish(sequence)
        owner.release(sequence)
        assert owner.seat(sequence, owner.find(sequence), sequence.known) and sequence.cached == 8
    assert (owner.hit_tokens, owner.lookup_tokens, owner.prompt_tokens) == (8, 22, 22)


def test_prompts_to_be_scored_are_computed_whole():
    owner = paging()
    computed(owner, list(range(12)))
    assert seated(owner, list(range(12)), prompt_logprobs=True).cached == 0


def test_the_table_is_rebuilt_only_when_pages_change():
    owner = paging()
    sequence = seated(owner, list(range(8)))
    table = sequence.table
    owner.publish(sequence)
    assert sequence.table is table
    assert owner.grow(sequence) and len(sequence.table) == 3


def test_growth_is_a_small_share_and_stops_at_what_can_be_used():
    owner = paging(4096)
    sequence = seated(owner, list(range(4)), max_tokens=3000)
    while len(sequence.pages) < owner.pages_for(sequence.goal):
        held = len(sequence.pages)
        assert owner.grow(sequence)
        grown = len(sequence.pages) - held
        assert 1 <= grown <= max(1, min(GROWTH_CAP, held // GROWTH_SHARE))
    assert len(sequence.pages) == owner.pages_for(sequence.goal)
    owner.release(sequence)
    owner.pool.check()
    assert owner.pool.free == owner.pool.total


def test_growth_is_one_page_when_pages_are_short():
    owner = paging(70)
    sequence = seated(owner, list(range(256)))
    assert owner.pool.free == 5
    assert owner.grow(sequence) and len(sequence.pages) == 65
    owner.pool.allocate(4)
    assert not owner.grow(sequence) and len(sequence.pages) == 65


def test_without_room_nothing_is_taken():
    owner = paging(6)
    computed(owner, list(range(8)))
    sequence = Sequence(make_request("b", list(range(30)), 1), 2)
    before = owner.pool.available
    assert not owner.seat(sequence, owner.find(sequence), sequence.known)
    assert owner.pool.available == before and sequence.pages == []
    owner.pool.check()


def test_distrusted_pages_are_not_reused():
    owner = paging()
    sequence = computed(owner, list(range(12)))
    owner.distrust(sequence)
    owner.release(sequence)
    assert owner.pool.free == owner.pool.total
    assert seated(owner, list(range(12))).cached == 0


def test_page_sizes_must_agree():
    with pytest.raises(ValueError, match="hold 8 tokens"):
        Paging(PagePool(4), PrefixCache(8), 4)
