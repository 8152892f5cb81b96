"""Kernels with a fault put in on purpose: a test that cannot tell them from the sound ones proves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks

from kernels_pallas.paged_attention.mosaic import ampere_attention, ampere_blocks, common, hopper_blocks

SHARED = [common, hopper_blocks, ampere_blocks, ampere_attention]  # by kernels; none imports one to its right
COMPLAINTS = ("RACE DETECTED", "no threads observed phase")  # the second: a barrier that nobody waited for


def mutated(module: ModuleType, *changes: tuple[str, str]) -> ModuleType:
    """A copy of the module with each (old, new) change of its text, where `old` must occur exactly once."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times in {module.__name__}"
        source = source.replace(old, new)
    copy = ModuleType(module.__name__)
    copy.__file__ = module.__file__
    exec(compile(source, f"<mutant of {module.__name__}>", "exec"), copy.__dict__)
    return copy


def planted(
    monkeypatch: pytest.MonkeyPatch, kernel: ModuleType, module: ModuleType, changes: list[tuple[str, str]]
) -> ModuleType:
    """A copy of the kernel's module with the changes in its own text or in that of a module below it."""
    if module is kernel:
        return mutated(kernel, *changes)
    _install(monkeypatch, mutated(module, *changes))
    for between in SHARED[SHARED.index(module) + 1 :]:
        _install(monkeypatch, mutated(between))
    return mutated(kernel)


def _install(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Let modules that are executed from now on import this one, in either of the two ways."""
    package, _, name = module.__name__.rpartition(".")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys.modules[package], name, module)


@contextmanager
def fresh_interpreter() -> Iterator[None]:
    """Leave no half-run kernel behind: the interpreter's memory is one per process."""
    try:
        yield
    finally:
        gpu_callbacks.reset_gpu_interpret_mode_state()


def is_found(errors: Callable[[], list[float]], tolerance: float) -> bool:
    """Whether the interpreter stops the kernel for its fault, or its results are wrong. Other exceptions pass through.

    Which of the two it is may depend on how the threads happen to run.
    """
    with fresh_interpreter():
        try:
            return not all(error <= tolerance for error in errors())
        except AssertionError:
            return True
        except Exception as error:
            if any(complaint in str(error) for complaint in COMPLAINTS):
                return True
            raise
