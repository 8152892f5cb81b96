"""Which full pages already hold the keys and values of which tokens, so that prompts with a common start share them.

A tree of pages: a node is found by its parent and the page's own token ids, compared in full, so a page is never
served for other tokens than its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class _Node:
    __slots__ = ("id", "key", "page")

    def __init__(self, id: int, key: tuple[int, tuple[int, ...]], page: int) -> None:
        self.id = id
        self.key = key
        self.page = page


class PrefixCache:
    """Index of full pages by content, least recently used first out.

    It holds no references itself: `PagePool` tells it which of its pages nobody uses (`rest`) and takes those back
    with `reclaim`. Node ids are never used twice; `ROOT` is the empty prefix.
    """

    ROOT = 0

    __slots__ = ("_alive", "_by_page", "_idle", "_next_id", "_nodes", "page_tokens")

    def __init__(self, page_tokens: int) -> None:
        self.page_tokens = page_tokens
        self._nodes: dict[tuple[int, tuple[int, ...]], _Node] = {}
        self._by_page: dict[int, _Node] = {}
        self._idle: OrderedDict[int, _Node] = OrderedDict()  # page -> node, oldest use first
        self._alive = {self.ROOT}
        self._next_id = 1

    @property
    def idle_pages(self) -> int:
        """Pages kept for reuse that nobody uses now."""
        return len(self._idle)

    def lookup(self, token_ids: Sequence[int], pages: int) -> tuple[list[int], int]:
        """At most `pages` cached pages that hold the start of `token_ids`, and the node of the last one.

        Changes nothing; valid until the next `reclaim`, `forget` or `clear`, so share the pages at once.
        """
        size = self.page_tokens
        node_id = self.ROOT
        found: list[int] = []
        for first in range(0, pages * size, size):
            node = self._nodes.get((node_id, tuple(token_ids[first : first + size])))
            if node is None:
                break
            found.append(node.page)
            node_id = node.id
        return found, node_id

    def insert(self, parent: int, token_ids: tuple[int, ...], page: int) -> int | None:
        """Make a full page in use findable after `parent`; returns its node, to be the parent of the next page.

        When another page is known for the same tokens that one stays and its node is returned. None when the
        parent is gone: nothing below it could be found.
        """
        if parent not in self._alive or page in self._by_page:
            return None
        key = (parent, token_ids)
        node = self._nodes.get(key)
        if node is None:
            node = _Node(self._next_id, key, page)
            self._next_id += 1
            self._nodes[key] = node
            self._by_page[page] = node
            self._alive.add(node.id)
        return node.id

    def holds(self, page: int) -> bool:
        """Whether the page can be found by its content."""
        return page in self._by_page

    def rest(self, page: int) -> None:
        """The last user of a held page has left: it may be reclaimed from now on."""
        self._idle[page] = self._by_page[page]

    def wake(self, page: int) -> None:
        """An idle page is in use again; raises KeyError when it is not idle."""
        del self._idle[page]

    def reclaim(self, pages: int) -> list[int]:
        """Forget up to `pages` idle pages, least recently used first, and return them."""
        taken: list[int] = []
        while len(taken) < pages and self._idle:
            page, node = self._idle.popitem(last=False)
            self._drop(node)
            taken.append(page)
        return taken

    def forget(self, page: int) -> bool:
        """Make a page unfindable; True when it was idle, so that it is free now."""
        node = self._by_page.get(page)
        if node is None:
            return False
        self._drop(node)
        return self._idle.pop(page, None) is not None

    def clear(self) -> list[int]:
        """Forget everything; returns the pages that were idle."""
        idle = list(self._idle)
        self._idle.clear()
        self._nodes.clear()
        self._by_page.clear()
        self._alive = {self.ROOT}
        return idle

    def _drop(self, node: _Node) -> None:
        del self._nodes[node.key]
        del self._by_page[node.page]
        self._alive.discard(node.id)
