"""Pages of sequences that do not run: kept in place while nobody wants them, then copied to the host or given up."""

from __future__ import annotations

from collections.abc import Iterable

from andes_jax.memory.host import HostPages
from andes_jax.scheduling.journal import Journal
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.plan import PageCopy
from andes_jax.scheduling.sequence import Sequence
from andes_jax.scheduling.step_time import StepTimeModel, StepWork


class Stowage:
    """Owns what paused and preempted sequences have computed, on the device and on the host.

    Copies never wait for pages: a save is part of the next step and runs before anything that writes, so its device
    pages are free at once; a load needs device pages like any admission, and its host pages are free one step later.
    """

    def __init__(self, paging: Paging, host: HostPages, times: StepTimeModel, journal: Journal) -> None:
        self._paging = paging
        self._host = host
        self._times = times
        self._journal = journal
        self._parked: dict[Sequence, None] = {}  # they hold device pages but no slot
        self._saves: dict[Sequence, PageCopy] = {}  # for the next step
        self._loaded: list[tuple[int, ...]] = []  # host pages that the step being planned reads
        self.saved_pages = 0
        self.loaded_pages = 0
        self.recomputed_tokens = 0  # positions given up, to be computed again

    @property
    def host_pages(self) -> HostPages:
        """The host store's page numbers."""
        return self._host

    @property
    def parked(self) -> int:
        """Sequences that hold device pages without running."""
        return len(self._parked)

    def park(self, sequence: Sequence) -> None:
        """The sequence stops running and keeps its pages until somebody wants them."""
        if sequence.pages:
            self._parked[sequence] = None

    def unpark(self, sequence: Sequence) -> None:
        """The sequence goes on with the pages it kept."""
        self._parked.pop(sequence, None)

    def holds_pages(self, sequence: Sequence) -> bool:
        """Whether the sequence kept its pages on the device."""
        return sequence in self._parked

    def reclaim(self, pages: int) -> bool:
        """Take pages from parked sequences until so many are available, the least urgent first; False: too few."""
        pool = self._paging.pool
        if self._parked and pool.available < pages:
            for sequence in self.parked_sequences():
                self._stow(sequence)
                if pool.available >= pages:
                    break
        return pool.available >= pages

    def parked_sequences(self, keep: Sequence | None = None) -> list[Sequence]:
        """Those that hold device pages without running, but for one, the least urgent first."""
        parked = [sequence for sequence in self._parked if sequence is not keep]
        parked.sort(key=lambda sequence: (not sequence.paused, -sequence.tier, -sequence.order))
        return parked

    def stow(self, sequences: Iterable[Sequence]) -> None:
        """Take the pages of these parked sequences."""
        for sequence in sequences:
            self._stow(sequence)

    def cost_s(self, sequence: Sequence) -> float:
        """Seconds of the machine's time that taking the sequence's pages will cost, the cheaper way."""
        copied, computed = self._costs(sequence)
        return min(copied, computed)

    def _costs(self, sequence: Sequence) -> tuple[float, float]:
        tokens = sequence.computed
        pages = self._paging.pages_for(tokens)
        recompute = self._times.seconds(StepWork(prefills=((tokens, 0),)))
        if pages > self._host.free:
            return float("inf"), recompute
        return self._times.copy_seconds(2 * pages), recompute

    def _stow(self, sequence: Sequence) -> None:
        """Give the sequence's device pages back, saved to the host where that is cheaper than computing them again."""
        del self._parked[sequence]
        copied, recompute = self._costs(sequence)
        count = self._paging.pages_for(sequence.computed)
        if sequence.computed and copied <= recompute:
            host = self._host.take(count)
            assert host is not None
            self._saves[sequence] = PageCopy(sequence.table[:count], host)
            sequence.stored, sequence.stored_tokens = host, sequence.computed
            self.saved_pages += count
            self._journal.note(sequence.id, "saved", pages=count)
        else:
            self.recomputed_tokens += sequence.computed
            self._journal.note(sequence.id, "dropped", tokens=sequence.computed)
        self._paging.release(sequence)

    def load(self, sequence: Sequence, cached_pages: int) -> PageCopy | None:
        """The copy that brings back what a seated sequence has on the host beyond its leading cached pages."""
        host, tokens = sequence.stored, sequence.stored_tokens
        if not host:
            return None
        sequence.stored, sequence.stored_tokens = (), 0
        self._loaded.append(host)
        if tokens <= sequence.computed:
            return None
        sequence.computed = tokens
        self.loaded_pages += len(host) - cached_pages
        return PageCopy(sequence.table[cached_pages : len(host)], host[cached_pages:])

    def drop(self, sequence: Sequence) -> None:
        """Nothing of what the sequence has computed is kept."""
        if sequence in self._parked:
            del self._parked[sequence]
            self._paging.release(sequence)
        if sequence.stored:
            self._saves.pop(sequence, None)
            self._host.give(sequence.stored)
            sequence.stored, sequence.stored_tokens = (), 0

    def take_saves(self) -> tuple[PageCopy, ...]:
        """The copies that the step being planned begins with."""
        if not self._saves:
            return ()
        saves = tuple(self._saves.values())
        self._saves.clear()
        return saves

    def step_planned(self) -> None:
        """The plan is made: the next one may use the host pages that it reads."""
        for host in self._loaded:
            self._host.give(host)
        self._loaded.clear()

    def check(self) -> None:
        """Raise AssertionError when what is parked has no pages or a host page is free twice."""
        assert all(sequence.pages and sequence.slot is None for sequence in self._parked)
        self._host.check()
