"""The allocator against a plain set of pages, over random histories."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from andes_jax.memory.buddy import BuddyAllocator


class BuddyMachine(RuleBasedStateMachine):
    @initialize(pages=st.integers(2, 70))
    def make(self, pages):
        self.allocator = BuddyAllocator(pages)
        self.free = set(range(1, pages))
        self.held: list[tuple[int, int]] = []  # (start, pages)

    @rule(order=st.integers(0, 6))
    def allocate(self, order):
        start = self.allocator.allocate(order)
        size = 1 << order
        if start is None:
            aligned = range(0, self.allocator.pages, size)
            assert not any(self.free.issuperset(range(first, first + size)) for first in aligned)
            return
        assert start % size == 0
        run = set(range(start, start + size))
        assert run <= self.free, "a page was given twice"
        self.free -= run
        self.held.append((start, size))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free_part(self, data):
        start, size = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        first = data.draw(st.integers(0, size - 1))
        count = data.draw(st.integers(1, size - first))
        self.allocator.free(start + first, count)
        self.free |= set(range(start + first, start + first + count))
        self.held += [part for part in ((start, first), (start + first + count, size - first - count)) if part[1] > 0]

    @precondition(lambda self: self.free)
    @rule(data=st.data())
    def free_twice(self, data):
        page = data.draw(st.sampled_from(sorted(self.free)))
        with pytest.raises(ValueError, match="double free"):
            self.allocator.free(page)

    @invariant()
    def tiles(self):
        if not hasattr(self, "allocator"):
            return
        self.allocator.check()
        assert self.allocator.free_pages == len(self.free)
        longest = run = 0
        for page in range(self.allocator.pages):
            run = run + 1 if page in self.free else 0
            longest = max(longest, run)
        assert self.allocator.largest_run == longest
        expected = 1 - longest / len(self.free) if self.free else 0
        assert self.allocator.fragmentation == expected


TestBuddyMachine = BuddyMachine.TestCase
TestBuddyMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
