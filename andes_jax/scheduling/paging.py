"""Which pages a sequence holds: prefix hits, growth, publishing of full pages, release."""

from __future__ import annotations

from andes_jax.memory.pool import PagePool, PageRun
from andes_jax.memory.prefix import PrefixCache
from andes_jax.scheduling.sequence import Sequence

GROWTH_SHARE = 16  # a sequence grows by at most this part of what it holds, so waste stays under it
GROWTH_CAP = 8  # pages


class Paging:
    """The only owner of sequences' pages: every page taken here for a sequence is given back here, once."""

    def __init__(self, pool: PagePool, prefix: PrefixCache | None, page_tokens: int) -> None:
        if prefix is not None and prefix.page_tokens != page_tokens:
            raise ValueError(f"prefix cache pages hold {prefix.page_tokens} tokens, the pool's {page_tokens}")
        self.pool = pool
        self._prefix = prefix
        self.page_tokens = page_tokens
        self.hit_tokens = 0  # positions taken over from the prefix cache so far, counted once a request
        self.lookup_tokens = 0  # positions looked for
        self.prompt_tokens = 0  # of all requests admitted so far

    def pages_for(self, tokens: int) -> int:
        """Pages that hold so many positions."""
        return -(-tokens // self.page_tokens)

    def find(self, sequence: Sequence) -> tuple[list[int], int]:
        """Cached pages that hold the start of the sequence, never its last known token, whose logits are needed.

        Nothing is taken: `seat` at once, or drop the result.
        """
        if self._prefix is None or not sequence.scored:
            return [], PrefixCache.ROOT
        return self._prefix.lookup(sequence.token_ids, (sequence.known - 1) // self.page_tokens)

    def seat(self, sequence: Sequence, hit: tuple[list[int], int], tokens: int) -> bool:
        """Give the sequence the hit's pages and new ones up to `tokens` positions; False and nothing, if too few."""
        pages, node = hit
        self.pool.share(pages)
        runs = self.pool.allocate(self.pages_for(tokens) - len(pages))
        if runs is None:
            self.pool.release(pages)
            return False
        taken = list(pages)
        for start, count in runs:
            taken.extend(range(start, start + count))
        sequence.published = len(pages)
        sequence.node = node
        sequence.cached = sequence.computed = len(pages) * self.page_tokens
        if sequence.first_cached is None:
            sequence.first_cached = sequence.cached
            self.prompt_tokens += sequence.prompt_length
            # Not when it is seated again: it then finds its own pages, reply and all.
            if self._prefix is not None and sequence.scored:
                self.hit_tokens += sequence.cached
                self.lookup_tokens += sequence.known
        self._hold(sequence, taken)
        return True

    def extend(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence that kept its pages room for `tokens` positions; False, with nothing taken, if too few."""
        wanted = self.pages_for(tokens) - len(sequence.pages)
        if wanted > 0:
            runs = self.pool.allocate(wanted)
            if runs is None:
                return False
            self._append(sequence, runs)
        return True

    def grow(self, sequence: Sequence, ahead: bool = True) -> bool:
        """Give the sequence room for its next position; False, with nothing taken, when no page is to be had.

        With `ahead`, takes a small run when pages are plenty; else one page.
        """
        pool = self.pool
        held = len(sequence.pages)
        most = min(GROWTH_CAP, held // GROWTH_SHARE, self.pages_for(sequence.goal) - held) if ahead else 1
        wanted = 1 << (most.bit_length() - 1) if most > 1 else 1
        if wanted > 1 and pool.free < pool.total // GROWTH_SHARE + wanted:
            wanted = 1
        runs = pool.allocate(wanted)
        if runs is None:
            return False
        self._append(sequence, runs)
        return True

    def _append(self, sequence: Sequence, runs: list[PageRun]) -> None:
        pages = sequence.pages
        for start, count in runs:
            pages.extend(range(start, start + count))
        self._hold(sequence, pages)

    def publish(self, sequence: Sequence) -> None:
        """Let later prompts find the sequence's pages that are full of computed tokens with known ids."""
        prefix = self._prefix
        size = self.page_tokens
        full = min(sequence.computed, len(sequence.token_ids)) // size
        if prefix is None:
            sequence.published = full
            return
        while sequence.published < full and sequence.node is not None:
            first = sequence.published * size
            ids = tuple(sequence.token_ids[first : first + size])
            sequence.node = prefix.insert(sequence.node, ids, sequence.pages[sequence.published])
            sequence.published += 1

    def release(self, sequence: Sequence) -> None:
        """Take everything from the sequence; nothing of it is computed any more."""
        pages = sequence.pages
        self._hold(sequence, [])
        sequence.computed = sequence.cached = sequence.published = 0
        sequence.node = PrefixCache.ROOT
        self.pool.release(pages)

    def distrust(self, sequence: Sequence) -> None:
        """What the sequence computed is not to be reused: its content is wrong."""
        self.pool.forget(sequence.pages)
        sequence.node = None

    def _hold(self, sequence: Sequence, pages: list[int]) -> None:
        sequence.pages = pages
        sequence.table = tuple(pages)
        sequence.capacity = len(pages) * self.page_tokens
