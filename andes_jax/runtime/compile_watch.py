"""Compilation: kept on disk between starts, and counted, since a compile after ready is a defect."""

from __future__ import annotations

from pathlib import Path

import jax

from andes_jax.failure import UserError

_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


class CacheFolderError(UserError):
    """The folder for compiled programs cannot be used."""

    def __init__(self, folder: Path, reason: OSError) -> None:
        super().__init__(f"{folder} cannot be written ({reason.strerror}); choose another --compile-cache-dir")


def keep_compiled(folder: Path) -> None:
    """Keep every compiled program in `folder`, small and quick ones too, which JAX leaves out by default.

    Raises CacheFolderError where there is no such folder and it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheFolderError(folder, error) from error
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


class CompileCounter:
    """Counts programs that XLA compiles or fetches from the cache in this process, from construction on."""

    def __init__(self) -> None:
        self.count = 0
        self._mark = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == _COMPILE_EVENT:
            self.count += 1

    def mark_ready(self) -> None:
        """From here on compiles are defects."""
        self._mark = self.count

    def after_ready(self) -> int:
        """Compiles since mark_ready."""
        return self.count - self._mark
