"""andes-jax convert: any checkpoint to an Orbax one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from andes_jax.byte_size import format_byte_size
from andes_jax.commands.progress import progress_line

if TYPE_CHECKING:
    from andes_jax.model.checkpoints import Checkpoint


def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A GGUF file, a model folder or a Hugging Face id.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The folder to write; it must not exist, or be empty.")],
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(help="Type of the written matrices; without it that of SRC, and float32 if SRC is quantised."),
    ] = None,
) -> None:
    """Write a model as an Orbax checkpoint, with its tokenizer and chat template, for `serve` to open quickly.

    Examples:

      andes-jax convert model.gguf model-orbax
      andes-jax convert ./Qwen3-0.6B qwen3-orbax --dtype bfloat16
    """
    from andes_jax.model.checkpoints import open_checkpoint, write_orbax

    with progress_line(quiet_in_logs=True) as progress:
        progress(f"opening {source}")
        checkpoint = open_checkpoint(source)
        kept = dtype or _stored_dtype(checkpoint)
        progress(f"writing {target} in {kept}")
        write_orbax(checkpoint, target, kept)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    typer.echo(f"wrote {target} ({format_byte_size(size)}, {kept}); serve it with: andes-jax serve {target}")


def _stored_dtype(checkpoint: Checkpoint) -> str:
    for _, tensor in checkpoint.tensors():
        if tensor.ndim > 1:
            return "float32" if tensor.dtype == "float64" else str(tensor.dtype)
    return "float32"
