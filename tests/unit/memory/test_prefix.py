from __future__ import annotations

from andes_jax.memory.prefix import PrefixCache

ROOT = PrefixCache.ROOT


def chain(cache: PrefixCache, ids: list[int], pages: list[int]) -> list[int]:
    """Insert the full pages of ids; returns the nodes."""
    nodes, node = [], ROOT
    for index, page in enumerate(pages):
        node = cache.insert(node, tuple(ids[index * cache.page_tokens : (index + 1) * cache.page_tokens]), page)
        nodes.append(node)
    return nodes


def test_lookup_finds_the_longest_common_start():
    cache = PrefixCache(2)
    nodes = chain(cache, [1, 2, 3, 4, 5, 6], [10, 11, 12])
    assert cache.lookup([1, 2, 3, 4, 5, 6, 7], 3) == ([10, 11, 12], nodes[2])
    assert cache.lookup([1, 2, 3, 4, 5, 6, 7], 2) == ([10, 11], nodes[1])
    assert cache.lookup([1, 2, 3, 9, 5, 6], 3) == ([10], nodes[0])
    assert cache.lookup([2, 1], 1) == ([], ROOT)


def test_equal_pages_after_different_starts_are_different():
    cache = PrefixCache(2)
    chain(cache, [1, 1, 7, 7], [1, 2])
    chain(cache, [2, 2, 7, 7], [3, 4])
    assert cache.lookup([1, 1, 7, 7], 2)[0] == [1, 2]
    assert cache.lookup([2, 2, 7, 7], 2)[0] == [3, 4]
    assert cache.lookup([7, 7], 1)[0] == []


def test_ids_with_equal_hashes_are_not_confused():
    assert hash(-1) == hash(-2)
    cache = PrefixCache(1)
    chain(cache, [-1], [1])
    assert cache.lookup([-2], 1)[0] == []


def test_the_first_page_for_a_content_stays():
    cache = PrefixCache(1)
    first = cache.insert(ROOT, (5,), 1)
    assert cache.insert(ROOT, (5,), 2) == first
    assert cache.lookup([5], 1)[0] == [1]
    assert cache.holds(1) and not cache.holds(2)


def test_least_recently_used_goes_first_and_pages_in_use_never():
    cache = PrefixCache(1)
    for token in range(4):
        cache.insert(ROOT, (token,), token + 1)
    for page in (1, 2, 3):
        cache.rest(page)
    cache.wake(1)
    cache.rest(1)
    assert cache.reclaim(2) == [2, 3]
    assert cache.reclaim(5) == [1]
    assert cache.lookup([3], 1)[0] == [4] and cache.idle_pages == 0


def test_nothing_is_found_below_a_reclaimed_page():
    cache = PrefixCache(1)
    nodes = chain(cache, [1, 2], [1, 2])
    cache.rest(1)
    cache.reclaim(1)
    assert cache.lookup([1, 2], 2)[0] == []
    assert cache.insert(nodes[0], (3,), 3) is None, "its parent cannot be reached"
    again = cache.insert(ROOT, (1,), 4)
    assert again not in nodes
    assert cache.lookup([1, 2], 2)[0] == [4], "the old child belongs to another node"


def test_forget_and_clear():
    cache = PrefixCache(1)
    chain(cache, [1, 2], [1, 2])
    cache.rest(2)
    assert cache.forget(2) and not cache.forget(1) and not cache.forget(9)
    chain(cache, [4, 5], [4, 5])
    cache.rest(5)
    assert cache.clear() == [5]
    assert cache.lookup([4, 5], 2)[0] == [] and cache.idle_pages == 0
