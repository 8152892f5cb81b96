"""Pages to host memory and back: bit for bit, in place, without waiting, within bounds."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.runtime.host_store import COPY_SIZES, HostStore, PageLayout, copy_sizes, cut_copy, staging_pages
from andes_jax.scheduling.plan import PageCopy
from tests.unit.runtime.test_runner import FAMILY

DEVICE = jax.devices()[0]
SPEC = open_checkpoint(FAMILY).spec
PAGES = 40
HOST_PAGES = 32
STAGING = 16
FLOAT = PageLayout.of(SPEC, "xla", 16, jnp.dtype("float32"))
LAYOUTS = {
    "float32, native": PageLayout.of(SPEC, "native", 16, jnp.dtype("float32")),
    "bfloat16, native": PageLayout.of(SPEC, "native", 16, jnp.dtype("bfloat16")),
    "float32, xla": FLOAT,
    "bfloat16, xla": PageLayout.of(SPEC, "xla", 16, jnp.dtype("bfloat16")),
    "pages first": PageLayout(3, (1, 2, 4, 2, 8), 0, jnp.dtype("bfloat16")),
    "pages last": PageLayout(2, (2, 8, 1), 2, jnp.dtype("float32")),
}


def _store(layout: PageLayout = FLOAT, pages: int = HOST_PAGES, staging: int = STAGING) -> HostStore:
    return HostStore(layout, pages, staging, DEVICE)


def _pools(layout: PageLayout = FLOAT, seed: int = 0) -> list[jax.Array]:
    """Every finite value there is may occur: denormal ones and both zeros too."""
    rng = np.random.default_rng(seed)
    pools = []
    for _ in range(layout.layers):
        words = rng.integers(0, 2 ** (8 * layout.dtype.itemsize), layout.shape(PAGES)).astype(layout.words)
        values = words.view(layout.dtype)
        values = np.where(np.isfinite(values), values, layout.dtype.type(-0.0))
        pools.append(jnp.copy(jax.device_put(values, DEVICE)))  # what is numpy's own cannot be updated in place
    return pools


def _bits(layout: PageLayout, pools: Sequence[jax.Array], pages: Sequence[int]) -> np.ndarray:
    """[layers, pages, ...] unsigned integers."""
    arrays = [np.moveaxis(np.asarray(pool), layout.axis, 0)[list(pages)] for pool in pools]
    return np.stack(arrays).view(layout.words)


def _copy(device_pages: Sequence[int], host_pages: Sequence[int]) -> tuple[PageCopy, ...]:
    return (PageCopy(tuple(device_pages), tuple(host_pages)),)


@given(st.integers(0, 200), st.sampled_from([copy_sizes(pages) for pages in (1, 3, 4, 15, 16, 99)]))
def test_a_cut_covers_the_pages_with_little_padding(count, sizes):
    cuts = cut_copy(count, sizes)
    assert set(cuts) <= set(sizes) and sum(cuts) >= count > sum(cuts[:-1]) - (not cuts)
    assert sum(cuts) - count <= (cuts[-1] // 4 if cuts else 0)


def test_sizes_and_staging_follow_what_there_is():
    assert (copy_sizes(0), copy_sizes(3), copy_sizes(16)) == ((), (1,), COPY_SIZES)
    assert cut_copy(23, COPY_SIZES) == (16, 4, 4), "an eighth is padding, and three programs are better than five"
    assert [staging_pages(pages) for pages in (2, 200, 10_000)] == [16, 25, 64]


@pytest.mark.parametrize("settle", [False, True], ids=["still on the device", "from the host"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_pages_come_back_bit_for_bit_and_nothing_else_changes(name, settle):
    layout, store = LAYOUTS[name], _store(LAYOUTS[name], staging=64)
    saved, hosts = list(range(5, 28)), list(range(30, 7, -1))
    before, wanted = _pools(layout), _bits(layout, _pools(layout), saved)
    store.save(before, _copy(saved, hosts), step=1)
    pools = _pools(layout, seed=1)
    targets = list(range(39, 39 - len(saved), -1))
    others = sorted(set(range(1, PAGES)) - set(targets))
    untouched = _bits(layout, _pools(layout, seed=1), others)
    if settle:
        store.settle(2)
        assert store.staged_pages == 0
    where = [pool.unsafe_buffer_pointer() for pool in pools]
    pools = store.load(pools, _copy(targets[::-1], hosts[::-1]), step=2)
    assert np.array_equal(_bits(layout, pools, targets), wanted)
    assert np.array_equal(_bits(layout, pools, others), untouched)
    assert all(np.isfinite(np.asarray(pool)).all() for pool in pools), "page 0 is read by padding"
    assert [pool.unsafe_buffer_pointer() for pool in pools] == where, "the pools were copied"


def test_a_store_holds_its_pages_apart():
    """All host pages are used, over several steps and copies of one step, and come back in another order."""
    store, pools = _store(), _pools()
    store.save(pools, (PageCopy((1, 2), (31, 0)), PageCopy((3,), (7,))), step=1)
    rest = [page for page in range(HOST_PAGES) if page not in (31, 0, 7)]
    store.save(pools, _copy(range(4, 4 + len(rest)), rest), step=2)
    wanted = _bits(FLOAT, pools, [3, 1, 2, *range(4, 4 + len(rest))])
    targets = list(range(1, HOST_PAGES + 1))
    pools = store.load(_pools(seed=1), _copy(targets, [7, 31, 0, *rest]), step=3)
    assert np.array_equal(_bits(FLOAT, pools, targets), wanted)


@pytest.mark.parametrize("settled", [0, 1, 2])
def test_the_last_save_to_a_host_page_counts(settled):
    store, first, second = _store(), _pools(seed=1), _pools(seed=2)
    store.save(first, _copy((4, 5), (9, 10)), step=1)
    store.save(second, _copy((6,), (9,)), step=2)
    store.settle(settled + 1)
    pools = store.load(_pools(seed=3), _copy((20, 21), (9, 10)), step=3)
    wanted = np.concatenate([_bits(FLOAT, second, [6]), _bits(FLOAT, first, [5])], axis=1)
    assert np.array_equal(_bits(FLOAT, pools, [20, 21]), wanted)


def test_one_host_page_may_go_to_several_pages_and_stays_saved():
    store, pools = _store(), _pools()
    wanted = np.repeat(_bits(FLOAT, pools, [4]), 3, axis=1)
    store.save(pools, _copy((4, 5), (2, 3)), step=1)
    for step in (2, 9):
        pools = store.load(_pools(seed=1), _copy((7, 8, 9), (2, 2, 2)), step)
        assert np.array_equal(_bits(FLOAT, pools, [7, 8, 9]), wanted)
        store.settle(step)


def test_a_host_page_can_be_saved_anew_right_after_a_load():
    """The load is dispatched only, and must not see what the next step saves there."""
    store, first = _store(), _pools(seed=1)
    wanted = _bits(FLOAT, first, [4])
    store.save(first, _copy((4,), (0,)), step=1)
    store.settle(2)
    pools = store.load(_pools(seed=2), _copy((8,), (0,)), step=2)
    store.save(_pools(seed=3), _copy((5,), (0,)), step=3)
    store.settle(4)
    assert np.array_equal(_bits(FLOAT, pools, [8]), wanted)


def test_copies_do_not_wait_for_the_device():
    """The pools are the outcome of a long program, which is not over when all copies have been dispatched."""

    @jax.jit
    def slowly(pools: list[jax.Array], turns: int) -> list[jax.Array]:
        start = jnp.eye(512, dtype=jnp.float32)
        end = jax.lax.fori_loop(0, turns, lambda _, matrix: matrix @ start, start)
        return [jnp.where(end[0, 1] > 1, 1.0, pool) for pool in pools]  # end is start, but XLA cannot know

    store, pools = _store(staging=64), _pools(seed=1)
    store.save(pools, _copy((9,), (8,)), step=1)
    store.settle(2)
    pools = jax.device_put(slowly(store.load(store.warm(pools, 1), _copy((10,), (8,)), step=2), 1), DEVICE)
    wanted = _bits(FLOAT, pools, [4, 9])
    held = slowly(pools, 300)
    store.save(held, _copy((4,), (3,)), step=3)
    loaded = store.load(held, _copy((6,), (3,)), step=3)
    loaded = store.load(loaded, _copy((7,), (8,)), step=3)
    assert not any(pool.is_ready() for pool in loaded), "a copy waited for the device"
    store.wait(2)
    assert not any(pool.is_ready() for pool in loaded), "nothing of step 2 was left to wait for"
    began = time.perf_counter()
    store.wait(3)
    waited = time.perf_counter()
    jax.block_until_ready(loaded)
    assert time.perf_counter() - waited < waited - began, "the copies of step 3 were not waited for"
    assert np.array_equal(_bits(FLOAT, loaded, [6, 7]), wanted)


def test_more_than_may_be_staged_waits_and_arrives():
    store, pools = _store(staging=16), _pools()
    most = 0
    for first in (1, 9, 17):
        store.save(pools, _copy(range(first, first + 8), range(first, first + 8)), step=1)
        most = max(most, store.staged_pages)
    store.save(pools, _copy(range(1, 33), range(32)), step=1)
    assert most == 16 == store.staged_pages
    wanted = _bits(FLOAT, pools, range(1, 33))
    pools = store.load(_pools(seed=1), _copy(range(2, 34), range(32)), step=1)
    assert store.staged_pages <= 16
    assert np.array_equal(_bits(FLOAT, pools, range(2, 34)), wanted)


@pytest.mark.parametrize("staging", [16, 64], ids=["copies wait for each other", "copies wait for their step"])
def test_two_hundred_rounds_take_no_more_memory_than_the_first(staging):
    """Device arrays and host memory, with two steps in flight as in the engine, and pauses of all sizes."""
    store, pools = _store(staging=staging), _pools()
    page_bytes = sum(pool.nbytes for pool in pools) // PAGES
    tracemalloc.start()
    try:
        for step in range(1, 201):
            count = 1 + step * 7 % 20
            store.save(pools, _copy(range(1, 1 + count), range(count)), step)
            pools = store.load(pools, _copy(range(20, 20 + count), range(count)), step)
            assert store.staged_pages <= staging
            store.settle(step - 1)
            if step == 20:
                jax.block_until_ready(pools)
                arrays, (traced, _) = _array_bytes(), tracemalloc.get_traced_memory()
        jax.block_until_ready(pools)
        assert _array_bytes() <= arrays + staging * page_bytes
        assert tracemalloc.get_traced_memory()[0] <= traced + staging * page_bytes
    finally:
        tracemalloc.stop()
    store.settle(201)
    assert store.staged_pages == 0


def _array_bytes() -> int:
    return sum(array.nbytes for array in jax.live_arrays())


def test_the_store_takes_its_pages_and_no_more():
    tracemalloc.start()
    try:
        store = _store(pages=24)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    page_bytes = FLOAT.layers * int(np.prod(FLOAT.page_shape)) * 4
    assert 24 * page_bytes <= taken < 25 * page_bytes
    assert store.staged_pages == 0


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        (_copy((0,), (1,)), "device page 0 .* from 1 to 39"),
        (_copy((PAGES,), (1,)), "device page 40"),
        (_copy((1,), (-1,)), "host page -1 .* there are 32"),
        (_copy((1,), (HOST_PAGES,)), "host page 32"),
        (_copy((1, 2), (3,)), "shorter|longer"),
    ],
)
def test_pages_that_do_not_exist_are_errors(copy, words):
    store, pools = _store(), _pools()
    store.save(pools, _copy(range(1, 33), range(32)), step=1)
    with pytest.raises(ValueError, match=words):
        store.save(pools, copy, step=2)
    with pytest.raises(ValueError, match=words):
        store.load(pools, copy, step=2)


def test_two_copies_to_one_page_are_an_error():
    store, pools = _store(), _pools()
    with pytest.raises(ValueError, match="two copies to one host page"):
        store.save(pools, (*_copy((1,), (3,)), *_copy((2,), (3,))), step=1)
    store.save(pools, _copy((1, 2), (3, 4)), step=1)
    with pytest.raises(ValueError, match="two copies to one device page"):
        store.load(pools, _copy((5, 5), (3, 4)), step=1)


def test_what_was_not_saved_or_is_forgotten_cannot_be_loaded():
    store, pools = _store(), _pools()
    with pytest.raises(ValueError, match="host page 3 .* not saved"):
        store.load(pools, _copy((1,), (3,)), step=1)
    store.save(pools, _copy((1,), (3,)), step=1)
    store.clear()
    assert store.staged_pages == 0
    with pytest.raises(ValueError, match="host page 3 .* not saved"):
        store.load(pools, _copy((1,), (3,)), step=2)
    with pytest.raises(ValueError, match="there are 0"):
        _store(pages=0).save(pools, _copy((1,), (0,)), step=1)
