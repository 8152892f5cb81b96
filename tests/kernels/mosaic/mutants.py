"""Kernels with a fault put in on purpose: a test that cannot tell them from the sound ones proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks

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
