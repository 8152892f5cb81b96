"""Pool and prefix cache against a model that knows who holds which page and what it contains."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache

PAGE_TOKENS = 2
tokens = st.lists(st.integers(0, 1), min_size=1, max_size=9)  # two tokens: common prefixes are frequent


class Holder:
    def __init__(self, ids: list[int], pages: list[int], shared: int, node: int) -> None:
        self.ids, self.pages, self.shared, self.node = ids, pages, shared, node


class PoolMachine(RuleBasedStateMachine):
    @initialize(pages=st.integers(2, 24))
    def make(self, pages):
        self.prefix = PrefixCache(PAGE_TOKENS)
        self.pool = PagePool(pages, self.prefix)
        self.holders: list[Holder] = []
        self.content: dict[int, tuple[int, ...]] = {}  # page -> all tokens up to its end

    @rule(ids=tokens)
    def open(self, ids):
        """Look up, share what is there, allocate and write the rest, publish the full pages."""
        hit, node = self.prefix.lookup(ids, (len(ids) - 1) // PAGE_TOKENS)
        for index, page in enumerate(hit):
            assert self.content[page] == tuple(ids[: (index + 1) * PAGE_TOKENS]), "served for other tokens"
        assert len(hit) * PAGE_TOKENS < len(ids)
        self.pool.share(hit)
        count = -(-len(ids) // PAGE_TOKENS) - len(hit)
        available = self.pool.available
        runs = self.pool.allocate(count)
        if runs is None:
            assert available < count
            self.pool.release(hit)
            return
        new = [page for start, length in runs for page in range(start, start + length)]
        assert len(new) == count and not set(new) & {page for holder in self.holders for page in holder.pages}
        holder = Holder(ids, hit + new, len(hit), node)
        for index in range(len(hit), len(ids) // PAGE_TOKENS):
            page = holder.pages[index]
            self.content[page] = tuple(ids[: (index + 1) * PAGE_TOKENS])
            if holder.node is not None:
                key = tuple(ids[index * PAGE_TOKENS : (index + 1) * PAGE_TOKENS])
                holder.node = self.prefix.insert(holder.node, key, page)
        self.holders.append(holder)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def close(self, data):
        """Some go together; what they give is told before they do."""
        leave = data.draw(st.sets(st.integers(0, len(self.holders) - 1), min_size=1, max_size=3))
        kept = data.draw(st.sets(st.sampled_from(sorted({page for holder in self.holders for page in holder.pages}))))
        told, without, available = self.pool.departures(), self.pool.departures(kept), self.pool.available
        for index in leave:
            told.add(self.holders[index].pages)
            without.add(self.holders[index].pages)
        for index in sorted(leave, reverse=True):
            self.pool.release(self.holders.pop(index).pages)
        assert self.pool.available - available == told.pages
        assert told.pages - without.pages == self.pool.idle(kept)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def forget(self, data):
        self.pool.forget(self.holders[data.draw(st.integers(0, len(self.holders) - 1))].pages)

    @rule()
    def clear(self):
        self.pool.clear_cache()
        assert self.pool.cached == 0

    @rule()
    def release_of_an_unheld_page_raises(self):
        held = {page for holder in self.holders for page in holder.pages}
        unheld = set(range(1, self.pool.total + 1)) - held
        if unheld:
            with pytest.raises(ValueError, match="nobody holds"):
                self.pool.release([min(unheld)])

    @invariant()
    def adds_up(self):
        if not hasattr(self, "pool"):
            return
        self.pool.check()
        held = {page for holder in self.holders for page in holder.pages}
        assert self.pool.live == len(held) and 0 not in held

    def teardown(self):
        if not hasattr(self, "pool"):
            return
        for holder in self.holders:
            self.pool.release(holder.pages)
        self.pool.clear_cache()
        assert self.pool.free == self.pool.total
        assert self.pool.fragmentation == 0


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
