from __future__ import annotations

import pytest

from andes_jax.memory.buddy import BuddyAllocator


def test_runs_are_aligned_and_page_zero_is_never_given():
    allocator = BuddyAllocator(64)
    starts = []
    while (start := allocator.allocate(2)) is not None:
        starts.append(start)
    assert sorted(starts) == list(range(4, 64, 4))  # pages 1..3 make no aligned run of four
    assert allocator.free_pages == 3


@pytest.mark.parametrize("pages", [2, 3, 7, 64, 1000, 4097])
def test_any_count_is_used_to_the_last_page(pages):
    allocator = BuddyAllocator(pages)
    given = {allocator.allocate(0) for _ in range(pages - 1)}
    assert given == set(range(1, pages))
    assert allocator.allocate(0) is None
    for page in given:
        allocator.free(page)
    allocator.check()
    assert allocator.largest_run == pages - 1


def test_neighbours_merge_when_both_are_back():
    allocator = BuddyAllocator(32)
    start = allocator.allocate(4)
    assert start == 16
    allocator.free(16, 8)
    assert allocator.allocate(4) is None
    allocator.free(24, 8)
    assert allocator.allocate(4) == 16


def test_the_unused_half_of_a_run_can_be_given_back():
    allocator = BuddyAllocator(32)
    start = allocator.allocate(3)
    before = allocator.free_pages
    allocator.free(start + 4, 4)
    assert allocator.free_pages == before + 4
    with pytest.raises(ValueError, match="double free"):
        allocator.free(start, 8)
    assert allocator.free_pages == before + 4
    allocator.free(start, 4)
    allocator.check()


@pytest.mark.parametrize(("start", "pages"), [(0, 1), (8, 1), (7, 2), (1, 0), (-1, 1)])
def test_pages_outside_are_refused(start, pages):
    with pytest.raises(ValueError, match="are not pages"):
        BuddyAllocator(8).free(start, pages)


def test_fragmentation_is_what_the_longest_stretch_leaves_out():
    allocator = BuddyAllocator(9)
    assert allocator.fragmentation == 0
    given = [allocator.allocate(0) for _ in range(8)]
    assert allocator.fragmentation == 0 and allocator.free_pages == 0
    for page in (1, 2, 3, 5):
        allocator.free(page)
    assert sorted(given) == list(range(1, 9))
    assert allocator.largest_run == 3
    assert allocator.fragmentation == 1 - 3 / 4


def test_a_pool_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 2 pages"):
        BuddyAllocator(1)
