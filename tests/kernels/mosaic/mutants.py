"""Kernels with a fault put in on purpose: a test that cannot tell them from the sound ones proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks

from kernels_pallas.paged_attention.mosaic import hopper_blocks

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
    """The kernel's module with the changes in its own text or in that of a module it calls by name."""
    mutant = mutated(module, *changes)
    if module is kernel:
        return mutant
    name = module.__name__.rpartition(".")[2]
    users = [user for user in (kernel, hopper_blocks) if hasattr(user, name)]
    assert kernel in users
    for user in users:
        monkeypatch.setattr(user, name, mutant)
    return kernel


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
