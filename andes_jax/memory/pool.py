"""Reference-counted pages over the buddy allocator: each page is free, cached (kept for reuse) or live (used)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from andes_jax.memory.buddy import BuddyAllocator
from andes_jax.memory.prefix import PrefixCache
from andes_jax.request import Tier


class PageRun(NamedTuple):
    """Neighbouring pages start .. start+pages-1."""

    start: int
    pages: int


class Departures:
    """Counts the pages that would become available if users of pages left; valid until the pool changes."""

    __slots__ = ("_left", "_references", "pages")

    def __init__(self, references: Sequence[int], kept: Iterable[int]) -> None:
        self._references = references
        self._left = dict.fromkeys(kept, -1)
        self.pages = 0

    def add(self, pages: Iterable[int]) -> None:
        """A user of these pages would leave, too."""
        left, references = self._left, self._references
        for page in pages:
            gone = left.get(page, 0) + 1
            left[page] = gone
            if gone == references[page]:
                self.pages += 1


class PagePool:
    """The pages of one device's cache. free + cached + live = total at all times; page 0 is none of them.

    A page has as many owners as references; it is written only by the one that allocated it, before it is shared.
    """

    __slots__ = ("_allocator", "_prefix", "_references", "live", "reserve", "total")

    def __init__(self, pages: int, prefix: PrefixCache | None = None, *, reserve: int = 0) -> None:
        """`pages` counts page 0; `reserve` pages are kept free of batch work, for bursts of the other tiers."""
        self._allocator = BuddyAllocator(pages)
        self._prefix = prefix
        self._references = [0] * pages
        self.total = pages - 1
        self.live = 0  # pages with at least one reference
        self.reserve = reserve

    @property
    def free(self) -> int:
        """Pages that hold nothing."""
        return self._allocator.free_pages

    @property
    def cached(self) -> int:
        """Pages without a user whose content may be reused; they are given up when pages run short."""
        return self._prefix.idle_pages if self._prefix is not None else 0

    @property
    def available(self) -> int:
        """Pages `allocate` can give: free and cached ones."""
        return self.free + self.cached

    def room(self, tier: Tier) -> int:
        """Available pages that a newcomer of this tier may take while others run."""
        return self.available - self.reserve if tier is Tier.BATCH else self.available

    @property
    def largest_run(self) -> int:
        """Pages of the longest stretch of free pages."""
        return self._allocator.largest_run

    @property
    def fragmentation(self) -> float:
        """1 - largest free run / free pages."""
        return self._allocator.fragmentation

    def allocate(self, pages: int) -> list[PageRun] | None:
        """Runs of `pages` pages in all, each with one reference, or None (nothing changed) when there are too few.

        Evicts cached pages when free ones do not suffice. The runs are as few as free space allows.
        """
        short = pages - self._allocator.free_pages
        if short > 0:
            if short > self.cached:
                return None
            assert self._prefix is not None
            self._free(self._prefix.reclaim(short))
        runs = self._take(pages)
        references = self._references
        for start, count in runs:
            for page in range(start, start + count):
                references[page] = 1
        self.live += pages
        return runs

    def _take(self, pages: int) -> list[PageRun]:
        """One run of 2^k >= pages with its tail given back, or else the largest runs there are; enough are free."""
        allocator = self._allocator
        order = (pages - 1).bit_length()
        start = allocator.allocate(order)
        if start is not None:
            if pages < 1 << order:
                allocator.free(start + pages, (1 << order) - pages)
            return [PageRun(start, pages)]
        runs: list[PageRun] = []
        while pages:
            order = min(order, pages.bit_length() - 1)
            start = allocator.allocate(order)
            if start is None:
                order -= 1
                continue
            runs.append(PageRun(start, 1 << order))
            pages -= 1 << order
        return runs

    def share(self, pages: Iterable[int]) -> None:
        """Add a user to live or cached pages; raises KeyError for a page that is neither."""
        references = self._references
        for page in pages:
            if references[page] == 0:
                if self._prefix is None:
                    raise KeyError(page)
                self._prefix.wake(page)
                self.live += 1
            references[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """Take one user from each page. Pages left without one are cached when findable, else free.

        Later pages of the list become evictable before earlier ones, which more prompts can share.
        Raises ValueError for a page without users.
        """
        references = self._references
        prefix = self._prefix
        unused: list[int] = []
        for page in reversed(pages):
            if references[page] == 0:
                raise ValueError(f"page {page} is released but nobody holds it")
            references[page] -= 1
            if references[page] == 0:
                self.live -= 1
                if prefix is not None and prefix.holds(page):
                    prefix.rest(page)
                else:
                    unused.append(page)
        self._free(unused)

    def _free(self, pages: list[int]) -> None:
        """Give pages back to the allocator, neighbours together."""
        pages.sort()
        index = 0
        while index < len(pages):
            start = pages[index]
            count = 1
            while index + count < len(pages) and pages[index + count] == start + count:
                count += 1
            self._allocator.free(start, count)
            index += count

    def departures(self, kept: Iterable[int] = ()) -> Departures:
        """A count of what would become available if users left; not so `kept` pages, which somebody is to share."""
        return Departures(self._references, kept)

    def idle(self, pages: Iterable[int]) -> int:
        """How many of these pages have no user."""
        references = self._references
        return sum(references[page] == 0 for page in pages)

    def forget(self, pages: Iterable[int]) -> None:
        """Never find these pages by content again; their users keep them."""
        if self._prefix is not None:
            self._free([page for page in pages if self._prefix.forget(page)])

    def clear_cache(self) -> None:
        """Forget all content: cached pages are free, live ones are no longer found."""
        if self._prefix is not None:
            self._free(self._prefix.clear())

    def check(self) -> None:
        """Raise AssertionError unless every page is exactly one of free, cached and live."""
        live = len(self._references) - self._references.count(0)
        assert self.live == live, f"{self.live} pages counted live, {live} have users"
        free, cached = self.free, self.cached
        assert free + cached + live == self.total, f"free {free} + cached {cached} + live {live} != total {self.total}"
