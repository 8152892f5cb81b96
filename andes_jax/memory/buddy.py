"""A buddy allocator over page numbers: aligned runs of 2^k pages, split and merged in O(log pages).

Everything is host integers; the pages themselves are somebody else's arrays.
"""

from __future__ import annotations


class BuddyAllocator:
    """Hands out aligned runs of 2^k pages from `pages` pages, of which page 0 is never given.

    `pages` may be any count from 2 up. A held run may be given back whole or in parts, in any order.
    """

    __slots__ = ("_blocks", "_held", "_orders", "free_pages", "pages")

    def __init__(self, pages: int) -> None:
        """All pages but page 0 start free; raises ValueError for fewer than two pages."""
        if pages < 2:
            raise ValueError(f"a pool needs at least 2 pages, got {pages}")
        self.pages = pages
        self.free_pages = 0
        self._blocks: list[dict[int, None]] = [{} for _ in range(pages.bit_length())]  # per order: starts of free runs
        self._orders = 0  # bit k: some run of order k is free
        self._held = bytearray(b"\x01") * pages  # 1: held or page 0
        self.free(1, pages - 1)

    def allocate(self, order: int) -> int | None:
        """The start of a run of 2^order pages, which the caller holds from now on; None when no such run is free."""
        usable = self._orders >> order
        if not usable:
            return None
        found = order + (usable & -usable).bit_length() - 1
        blocks = self._blocks[found]
        start = blocks.popitem()[0]
        if not blocks:
            self._orders ^= 1 << found
        while found > order:
            found -= 1
            self._blocks[found][start + (1 << found)] = None
            self._orders |= 1 << found
        size = 1 << order
        if size == 1:
            self._held[start] = 1
        else:
            self._held[start : start + size] = b"\x01" * size
        self.free_pages -= size
        return start

    def free(self, start: int, pages: int = 1) -> None:
        """Give back pages start .. start+pages-1, a run or any part of runs.

        Raises ValueError, with nothing changed, when one of them is page 0, out of range or already free.
        """
        end = start + pages
        if start < 1 or pages < 1 or end > self.pages:
            raise ValueError(f"pages {start}..{end - 1} are not pages of a pool of {self.pages}")
        if 0 in self._held[start:end]:
            raise ValueError(f"double free: a page of {start}..{end - 1} is free already")
        self._held[start:end] = bytes(pages)
        self.free_pages += pages
        if pages == 1:
            self._merge(start, 0)
            return
        while start < end:
            order = min((start & -start).bit_length(), (end - start).bit_length()) - 1
            self._merge(start, order)
            start += 1 << order

    def _merge(self, start: int, order: int) -> None:
        """Put an aligned run on the free lists, joined with its buddy as often as that one is free."""
        blocks = self._blocks[order]
        buddy = start ^ (1 << order)
        while buddy in blocks:
            del blocks[buddy]
            if not blocks:
                self._orders ^= 1 << order
            start &= buddy
            order += 1
            blocks = self._blocks[order]
            buddy = start ^ (1 << order)
        blocks[start] = None
        self._orders |= 1 << order

    @property
    def largest_run(self) -> int:
        """Pages of the longest stretch of neighbouring free pages, whether or not one allocation could take it."""
        return max(map(len, bytes(self._held).split(b"\x01")))

    @property
    def fragmentation(self) -> float:
        """1 - largest free run / free pages, in [0, 1]; 0 when nothing is free."""
        free = self.free_pages
        return 1.0 - self.largest_run / free if free else 0.0

    def check(self) -> None:
        """Raise AssertionError unless the free lists tile exactly the free pages, aligned and fully merged."""
        seen = bytearray(b"\x01") * self.pages
        for order, blocks in enumerate(self._blocks):
            assert bool(blocks) == bool(self._orders >> order & 1), f"order mask is wrong at {order}"
            for start in blocks:
                assert start % (1 << order) == 0, f"run {start} of order {order} is not aligned"
                assert start ^ (1 << order) not in blocks, f"run {start} of order {order} was not merged"
                end = start + (1 << order)
                assert seen.find(0, start, end) < 0, f"page in {start}..{end - 1} is free twice"
                seen[start:end] = bytes(1 << order)
        assert seen == self._held, "free lists and held pages disagree"
        assert seen.count(0) == self.free_pages, "free count is wrong"
