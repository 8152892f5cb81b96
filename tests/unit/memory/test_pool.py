from __future__ import annotations

import pytest

from andes_jax.memory.pool import PagePool, PageRun
from andes_jax.memory.prefix import PrefixCache
from andes_jax.request import Tier


def pages_of(runs: list[PageRun]) -> list[int]:
    return [page for start, count in runs for page in range(start, start + count)]


def test_one_run_where_there_is_one_and_its_tail_stays_free():
    pool = PagePool(64)
    assert len(pool.allocate(5)) == 1
    assert pool.free == 58
    assert len(pool.allocate(17)) == 1
    pool.check()


def test_scattered_pages_serve_when_no_run_is_left():
    pool = PagePool(17)
    everything = pages_of(pool.allocate(16))
    odd = [page for page in everything if page % 2]
    pool.release(odd)
    runs = pool.allocate(8)
    assert sorted(pages_of(runs)) == sorted(odd) and len(runs) == 8
    assert pool.allocate(1) is None
    pool.check()


def test_too_few_pages_change_nothing():
    prefix = PrefixCache(1)
    pool = PagePool(5, prefix)
    (run,) = pool.allocate(1)
    prefix.insert(PrefixCache.ROOT, (7,), run.start)
    pool.release([run.start])
    assert (pool.free, pool.cached, pool.live) == (3, 1, 0)
    assert pool.allocate(5) is None
    assert (pool.free, pool.cached, pool.live) == (3, 1, 0)


def test_cached_pages_are_given_up_only_as_far_as_needed():
    prefix = PrefixCache(1)
    pool = PagePool(5, prefix)
    pages = pages_of(pool.allocate(4))
    node = PrefixCache.ROOT
    for token, page in enumerate(pages):
        node = prefix.insert(node, (token,), page)
    pool.release(pages)
    assert (pool.free, pool.cached) == (0, 4)
    pool.allocate(1)
    assert prefix.lookup([0, 1, 2, 3], 4)[0] == pages[:3], "the end of the prefix goes before its start"
    pool.check()


def test_shared_pages_live_until_the_last_user_leaves():
    prefix = PrefixCache(1)
    pool = PagePool(4, prefix)
    (run,) = pool.allocate(1)
    page = run.start
    prefix.insert(PrefixCache.ROOT, (1,), page)
    pool.share([page])
    leaving, but_one = pool.departures(), pool.departures(kept=[page])
    leaving.add([page])
    assert leaving.pages == 0
    leaving.add([page])
    assert leaving.pages == 1
    but_one.add([page])
    but_one.add([page])
    assert but_one.pages == 0
    pool.release([page])
    assert pool.live == 1
    pool.release([page])
    assert pool.cached == 1 and pool.idle([page]) == 1
    with pytest.raises(ValueError, match="nobody holds"):
        pool.release([page])
    pool.share([page])
    assert (pool.cached, pool.live) == (0, 1)


def test_free_pages_cannot_be_shared():
    with pytest.raises(KeyError):
        PagePool(4, PrefixCache(1)).share([1])
    with pytest.raises(KeyError):
        PagePool(4).share([1])


def test_forgotten_pages_are_free_once_unused():
    prefix = PrefixCache(1)
    pool = PagePool(4, prefix)
    pages = pages_of(pool.allocate(2))
    node = prefix.insert(PrefixCache.ROOT, (1,), pages[0])
    prefix.insert(node, (2,), pages[1])
    pool.release(pages[1:])
    pool.forget(pages)
    assert (pool.free, pool.cached, pool.live) == (2, 0, 1)
    pool.release(pages[:1])
    assert pool.free == 3
    pool.check()


def test_the_reserve_is_kept_free_of_batch_work():
    pool = PagePool(11, reserve=3)
    assert pool.room(Tier.REALTIME) == pool.room(Tier.STREAMING) == 10
    assert pool.room(Tier.BATCH) == 7
    pool.allocate(8)
    assert pool.room(Tier.STREAMING) == 2 and pool.room(Tier.BATCH) == -1


def test_check_sees_a_lost_page():
    pool = PagePool(8)
    pool.allocate(2)
    pool.live -= 1
    with pytest.raises(AssertionError):
        pool.check()
