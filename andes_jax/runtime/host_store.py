"""Pages of paused sequences in host memory, and the copies between them and the device's pools.

A save gathers pages into a fresh device array and starts its transfer; the pool's pages may be written anew by any
program dispatched later. What it holds reaches the host's memory once its step is over, while the device computes a
later one; until then loads take it from the device. A load puts pages into the donated pools. So `save` and `load`
return before the device has done anything, unless more is on its way than may be staged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from andes_jax.model.attention import pool_shape
from andes_jax.model.spec import ModelSpec
from andes_jax.runtime.programs import gather_pages, scatter_pages
from andes_jax.scheduling.plan import PageCopy

COPY_SIZES = (1, 4, 16)  # pages of one compiled copy, ascending
MOST_PADDING = 4  # at most 1 / so much of a copy is padding; more would cost more than another program's start
MOST_STAGED = 64  # pages
POOL_SHARE_STAGED = 8  # 1 / so much of the pool, where that is less
ALIGNMENT = 64  # bytes; XLA's CPU backend uses host arrays that begin so in place and copies others


def copy_sizes(host_pages: int) -> tuple[int, ...]:
    """Sizes of the copies compiled for a store of so many pages, ascending."""
    return tuple(size for size in COPY_SIZES if size <= host_pages)


def cut_copy(count: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Cut a copy of `count` pages into compiled sizes, the last of which may be padded. `sizes` ascend from 1."""
    cuts: list[int] = []
    for size in reversed(sizes):
        while count >= size - size // MOST_PADDING and count > 0:
            cuts.append(size)
            count -= size
    return tuple(cuts)


def staging_pages(pages: int) -> int:
    """Most pages of device memory that copies on their way take beside a pool of so many pages."""
    return max(COPY_SIZES[-1], min(MOST_STAGED, pages // POOL_SHARE_STAGED))


@dataclass(frozen=True, slots=True)
class PageLayout:
    """What a page is: a slice along `axis` of an array of `pool_shape` in every layer."""

    layers: int
    pool_shape: tuple[int, ...]  # of one layer, for a pool of one page
    axis: int
    dtype: jnp.dtype

    @classmethod
    def of(cls, spec: ModelSpec, implementation: str, page_tokens: int, dtype: jnp.dtype) -> PageLayout:
        """The layout that an implementation of attention keeps a model's pages in."""
        one, two = (pool_shape(implementation, spec, pages, page_tokens) for pages in (1, 2))
        axis = next(axis for axis, (short, long) in enumerate(zip(one, two, strict=True)) if short != long)
        return cls(spec.layers, one, axis, dtype)

    def shape(self, pages: int) -> tuple[int, ...]:
        """Shape of one layer's array of so many pages."""
        return (*self.pool_shape[: self.axis], pages, *self.pool_shape[self.axis + 1 :])

    @property
    def page_shape(self) -> tuple[int, ...]:
        """Shape of one layer's page."""
        return self.pool_shape[: self.axis] + self.pool_shape[self.axis + 1 :]

    @property
    def words(self) -> np.dtype:
        """Unsigned integers of the values' size: bits are copied whatever they mean."""
        return np.dtype(f"u{self.dtype.itemsize}")


class _Save(NamedTuple):
    """Pages gathered on the device, on their way to the host."""

    step: int
    size: int  # pages, padding included
    contents: list[jax.Array]  # of each layer
    host_pages: list[int]  # of the leading rows


class _Load(NamedTuple):
    """Pages staged on the device until they are in the pools."""

    step: int
    size: int
    done: jax.Array  # ready when they are


class HostStore:
    """Host memory for `pages` pages, and copies to and from it. Only the runner's thread calls it.

    Copies on their way take at most `staging` pages of device memory, padding included, and as much of the host's
    where the device's memory is not the host's; a copy that would exceed it waits for the oldest ones.
    """

    def __init__(self, layout: PageLayout, pages: int, staging: int, device: jax.Device) -> None:
        self._layout = layout
        self._sizes = copy_sizes(pages)
        self._pages = pages
        self._staging = staging
        self._device = device
        # The system gives memory to what is written, so an unused store costs nothing.
        self._memory = np.empty((pages, layout.layers, *layout.page_shape), layout.words)
        self.clear()

    def clear(self) -> None:
        """Forget every page and every copy on its way."""
        self._staged: deque[_Save | _Load] = deque()
        self._staged_pages = 0
        self._saved: set[int] = set()
        self._on_device: dict[int, tuple[_Save, int]] = {}  # host page -> where it is until it has reached the host

    @property
    def staged_pages(self) -> int:
        """Pages of device memory that copies take now."""
        return self._staged_pages

    def save(self, pools: Sequence[jax.Array], copies: Iterable[PageCopy], step: int) -> None:
        """Copy pages of the pools, as they are after all that was dispatched before, to the host.

        Raises ValueError for pages that do not exist, and for two saves to one host page.
        """
        pairs = self._pairs(copies, pools[0].shape[self._layout.axis])
        _check_distinct("host", [host for _, host in pairs])
        for part, size in self._parts(pairs):
            self._make_room(size)
            contents = gather_pages(self._layout.axis, pools, _padded([device for device, _ in part], size))
            for content in contents:
                content.copy_to_host_async()
            save = _Save(step, size, contents, [host for _, host in part])
            self._stage(save)
            self._on_device.update((host, (save, row)) for row, host in enumerate(save.host_pages))
        self._saved.update(host for _, host in pairs)

    def load(self, pools: list[jax.Array], copies: Iterable[PageCopy], step: int) -> list[jax.Array]:
        """The pools with pages copied from the host, as last saved; the ones passed in are gone.

        Raises ValueError for pages that do not exist or were not saved since the last `clear`, and for two loads to one
        device page.
        """
        pairs = self._pairs(copies, pools[0].shape[self._layout.axis])
        _check_distinct("device", [device for device, _ in pairs])
        for _, host in pairs:
            if host not in self._saved:
                raise ValueError(f"host page {host} is to be loaded, but was not saved")
        rest, moves = self._moves_on_device(pairs)
        for save, targets in moves:
            self._make_room(save.size)
            pools = self._put(pools, targets, save.contents, step)
        for part, size in self._parts(rest):
            self._make_room(size)
            contents = self._read([host for _, host in part], size)
            pools = self._put(pools, _padded([device for device, _ in part], size), contents, step)
        return pools

    def settle(self, step: int) -> None:
        """Finish the copies of steps before `step`; waits for those that are not over."""
        while self._staged and self._staged[0].step < step:
            self._finish_oldest()

    def wait(self, step: int) -> None:
        """Wait until the device is done with the copies of steps up to `step`."""
        for copy in self._staged:
            if copy.step <= step:
                jax.block_until_ready(copy.contents if isinstance(copy, _Save) else copy.done)

    def warm(self, pools: list[jax.Array], size: int) -> list[jax.Array]:
        """Compile and run the copies of one of `copy_sizes`; the pools come back with only scratch pages written."""
        scratch = _padded([], size)
        gathered = gather_pages(self._layout.axis, pools, scratch)
        for contents in (gathered, self._read([], size)):
            pools, done = scatter_pages(self._layout.axis, pools, scratch, contents)
            jax.block_until_ready(done)
        return pools

    def _pairs(self, copies: Iterable[PageCopy], device_pages: int) -> list[tuple[int, int]]:
        pairs = [pair for copy in copies for pair in zip(copy.device_pages, copy.host_pages, strict=True)]
        for device, host in pairs:
            if not 0 < device < device_pages:
                raise ValueError(f"device page {device} is to be copied, but they go from 1 to {device_pages - 1}")
            if not 0 <= host < self._pages:
                raise ValueError(f"host page {host} is to be copied, but there are {self._pages}")
        return pairs

    def _parts(self, pairs: list[tuple[int, int]]) -> Iterable[tuple[list[tuple[int, int]], int]]:
        """The pairs of each compiled copy, with its size."""
        start = 0
        for size in cut_copy(len(pairs), self._sizes):
            yield pairs[start : start + size], size
            start += size

    def _moves_on_device(
        self, pairs: list[tuple[int, int]]
    ) -> tuple[list[tuple[int, int]], list[tuple[_Save, np.ndarray]]]:
        """The pairs whose content has reached the host; and for the others, saves with the page each row goes to."""
        rest: list[tuple[int, int]] = []
        moves: list[tuple[_Save, np.ndarray]] = []
        for device, host in pairs:
            if host not in self._on_device:
                rest.append((device, host))
                continue
            save, row = self._on_device[host]
            for other, targets in moves:
                if other is save and targets[row] == 0:
                    break
            else:
                targets = _padded([], save.size)  # rows that are not wanted go to the scratch page
                moves.append((save, targets))
            targets[row] = device
        return rest, moves

    def _read(self, host_pages: list[int], size: int) -> list[jax.Array]:
        """A device array per layer of `size` pages, which begin with these pages of the host and end with zeros."""
        layout = self._layout
        block = _aligned((layout.layers, *layout.shape(size)), layout.words)
        rows = np.moveaxis(block, layout.axis + 1, 1)
        for row, page in enumerate(host_pages):
            rows[:, row] = self._memory[page]
        rows[:, len(host_pages) :] = 0  # the scratch page has to stay finite
        return jax.device_put([part.view(layout.dtype) for part in block], self._device)

    def _put(
        self, pools: list[jax.Array], targets: np.ndarray, contents: list[jax.Array], step: int
    ) -> list[jax.Array]:
        pools, done = scatter_pages(self._layout.axis, pools, targets, contents)
        self._stage(_Load(step, len(targets), done))
        return pools

    def _stage(self, copy: _Save | _Load) -> None:
        self._staged.append(copy)
        self._staged_pages += copy.size

    def _make_room(self, size: int) -> None:
        while self._staged and self._staged_pages + size > self._staging:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        copy = self._staged.popleft()
        self._staged_pages -= copy.size
        if isinstance(copy, _Load):
            jax.block_until_ready(copy.done)
            return
        axis, pages = self._layout.axis, copy.host_pages
        for layer, content in enumerate(copy.contents):
            words = np.asarray(content).view(self._layout.words)
            self._memory[pages, layer] = np.moveaxis(words, axis, 0)[: len(pages)]
        for page in pages:
            if self._on_device[page][0] is copy:  # and not a later save
                del self._on_device[page]


def _check_distinct(kind: str, targets: list[int]) -> None:
    if len(set(targets)) != len(targets):
        raise ValueError(f"two copies to one {kind} page in one step: {targets}")


def _padded(pages: Sequence[int], size: int) -> np.ndarray:
    """Page numbers [size] int32; the rest is page 0, which is scratch."""
    padded = np.zeros(size, np.int32)
    padded[: len(pages)] = pages
    return padded


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array that begins at a multiple of ALIGNMENT bytes."""
    length = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(length + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + length].view(dtype).reshape(shape)
