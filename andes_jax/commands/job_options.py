"""Command-line options that `batch` and `summarize` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from andes_jax.failure import UsageError

ERRORS_EXIT = 3  # the job is finished, and some of its rows hold errors


def option(text: str, *names: str, **bounds: float) -> Any:
    """An option described by `text`."""
    return typer.Option(*names, help=text, **bounds)  # type: ignore[arg-type]


Server = Annotated[str | None, option("A server to ask, in its batch tier; else an engine in this process.")]
ServerModel = Annotated[str | None, option("The server's model to ask for; else the first that it lists.")]
Key = Annotated[str | None, option("The server's key.")]
Parallel = Annotated[int | None, option("Calls at the same time; else as many as fill the engine, or 32.", min=1)]
PatienceS = Annotated[float, option("Seconds that a lost server or a full disk is waited for.", "--patience", min=0)]
Job = Annotated[Path | None, option("Folder that the job is kept in, so that it can go on after any end.")]
DryRun = Annotated[bool, option("Only say what there is to do and about how long it takes.", "--dry-run")]
Quiet = Annotated[bool, option("Show no progress.", "--quiet")]
ProgressKind = Annotated[str, option("How progress is shown: bar, or json for a line of JSON a second on stderr.")]


@dataclass(frozen=True)
class JobOptions:
    """Where a job's calls go, and how it behaves. Raises UsageError for options that contradict each other."""

    server: str | None
    server_model: str | None
    api_key: str | None
    parallel: int | None
    patience_s: float
    show: Literal["bar", "json", "nothing"]

    @classmethod
    def of(
        cls, server: str | None, server_model: str | None, api_key: str | None, parallel: int | None,
        patience_s: float, quiet: bool, progress: str,
    ) -> JobOptions:  # fmt: skip
        """From the values of the options above."""
        if progress not in ("bar", "json"):
            raise UsageError(f"--progress is bar or json, not {progress!r}")
        if server is None and (server_model is not None or api_key is not None):
            raise UsageError("--server-model and --api-key need --server")
        show: Any = "nothing" if quiet else progress
        return cls(server, server_model, api_key, parallel, patience_s, show)
