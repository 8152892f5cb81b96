"""Page numbers of the host's store, where paused sequences keep their keys and values."""

from __future__ import annotations


class HostPages:
    """Integers only: which host pages are free."""

    def __init__(self, pages: int) -> None:
        self.total = pages
        self._free = list(range(pages - 1, -1, -1))

    @property
    def free(self) -> int:
        """Pages that hold nothing."""
        return len(self._free)

    def take(self, pages: int) -> tuple[int, ...] | None:
        """So many pages, or None when there are too few."""
        if pages > len(self._free):
            return None
        return tuple(self._free.pop() for _ in range(pages))

    def give(self, pages: tuple[int, ...]) -> None:
        """Pages taken before are free again."""
        self._free.extend(pages)

    def check(self) -> None:
        """Raise AssertionError when a page is free twice or does not exist."""
        assert len(set(self._free)) == len(self._free), "a host page is free twice"
        assert all(0 <= page < self.total for page in self._free)
