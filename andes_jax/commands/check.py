"""andes-jax check: whether this machine can serve a model."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

import andes_jax
from andes_jax.byte_size import format_byte_size
from andes_jax.commands.failure import explains_itself
from andes_jax.commands.options import takes_settings
from andes_jax.config import Config
from andes_jax.failure import UserError

if TYPE_CHECKING:
    from andes_jax.build import Fit
    from andes_jax.model.checkpoints import Checkpoint
    from andes_jax.runtime.device import Device

_PROBE = "Déjà vu, 你好 🙂\n    x = 1"


class Problem(UserError):
    """One thing that is wrong: what it is and what to do."""


@dataclass
class Findings:
    """What was looked at, in order, with what was found."""

    rows: list[tuple[str, bool, str]] = field(default_factory=list)  # name, whether it is good, words

    def look[T](self, name: str, at: Callable[[], tuple[T, str]]) -> T | None:
        """Note what `at` finds; None when it found a problem."""
        try:
            value, words = at()
        except Exception as error:
            if not explains_itself(error):
                raise
            self.rows.append((name, False, str(error)))
            return None
        self.rows.append((name, True, words))
        return value

    @property
    def good(self) -> bool:
        return all(good for _, good, _ in self.rows)


@takes_settings("model", "engine", model="argument")
def check(config: Config) -> None:
    """Say whether this machine can serve MODEL: device, memory, model, compiled shapes, compile cache.

    The exit code is 1 when something is wrong. No weights are read.
    """
    found = findings(config)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for column in ("name", "good", "words"):
        table.add_column(column, overflow="fold")
    for name, good, words in found.rows:
        table.add_row(name, "[green]ok[/green]" if good else "[red]problem[/red]", words.replace("[", r"\["))
    Console(highlight=False).print(table)
    if not found.good:
        raise typer.Exit(1)


def findings(config: Config) -> Findings:
    """Look at everything that can be looked at without loading the model."""
    from andes_jax.build import fit
    from andes_jax.model.checkpoints import open_checkpoint
    from andes_jax.runtime.device import current_device

    found = Findings()
    found.look("versions", lambda: (None, _versions()))
    device = found.look("device", lambda: _device(current_device()))
    found.look("compile cache", lambda: (None, _compile_cache(config.engine.compile_cache_dir)))
    checkpoint = found.look("model", lambda: _model(open_checkpoint(config.model.source)))
    if checkpoint is not None:
        found.look("tokenizer", lambda: (None, _tokenizer(checkpoint)))
        found.look("chat template", lambda: (None, _chat_template(checkpoint)))
    if device is not None and checkpoint is not None:
        chosen = found.look("cache of keys and values", lambda: _sizes(fit(config, checkpoint.spec, device)))
        if chosen is not None:
            found.look("attention", lambda: (None, chosen.sizes.implementation))
            found.look("memory", lambda: (None, _memory(chosen)))
            found.look("shapes", lambda: (None, _shapes(chosen)))
    return found


def _versions() -> str:
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "jaxlib", "flax", "hypercorn"))
    return f"andes-jax {andes_jax.__version__}, Python {platform.python_version()}, {packages}"


def _device(device: Device) -> tuple[Device, str]:
    total, free = format_byte_size(device.memory_bytes), format_byte_size(device.free_bytes)
    return device, f"{device.platform}: {device.kind}, {free} of {total} free"


def _compile_cache(folder: Path) -> str:
    from andes_jax.runtime.compile_watch import CacheFolderError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".andes-jax-check"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CacheFolderError(folder, error) from error
    sizes = [path.stat().st_size for path in folder.iterdir() if path.is_file()]
    return f"{folder}, {len(sizes)} files, {format_byte_size(sum(sizes))}"


def _model(checkpoint: Checkpoint) -> tuple[Checkpoint, str]:
    spec = checkpoint.spec
    return checkpoint, (
        f"{checkpoint.source}: {spec.family}, {spec.parameters / 1e6:.0f} million parameters, {spec.layers} layers, "
        f"vocabulary {spec.vocab}, made for {spec.max_position} tokens"
    )


def _tokenizer(checkpoint: Checkpoint) -> str:
    tokenizer = checkpoint.tokenizer()
    back = tokenizer.decode(tokenizer.encode(_PROBE, add_special=False))
    if back != _PROBE:
        raise Problem(f"it turns {_PROBE!r} into {back!r}; the tokenizer's files do not fit together")
    if not tokenizer.eos_ids:
        raise Problem("it names no token that ends a reply, so every reply would run to its longest length")
    return f"{tokenizer.vocab_size} tokens, replies end at {', '.join(map(str, tokenizer.eos_ids))}"


def _chat_template(checkpoint: Checkpoint) -> str:
    template = checkpoint.chat_template()
    if template is None:
        return "none: chat calls will be refused, completions work"
    return f"works, {len(template.render([{'role': 'user', 'content': 'Hello'}]))} characters around one short message"


def _sizes(chosen: Fit) -> tuple[Fit, str]:
    longest = chosen.limits.max_model_len
    if chosen.context_tokens < longest:
        room = (
            f"which limits prompt and reply together to {chosen.context_tokens} tokens instead of {longest} "
            "(a larger --kv-pool-bytes holds more)"
        )
    else:
        room = f"{chosen.pool_tokens // longest} replies of the longest length ({longest}) at once"
    return chosen, (
        f"{format_byte_size(chosen.pool_bytes)} in {chosen.dtype.name}: {chosen.pool_tokens} tokens, {room}, "
        f"pages of {chosen.sizes.page_tokens} tokens"
    )


def _memory(chosen: Fit) -> str:
    from andes_jax.build import memory_problem, memory_words

    if chosen.needed_bytes > chosen.device.free_bytes > 0:
        raise Problem(memory_problem(chosen))
    return memory_words(chosen)


def _shapes(chosen: Fit) -> str:
    ladder = chosen.sizes.ladder
    decode, prefill = ", ".join(map(str, ladder.decode_rows)), ", ".join(map(str, ladder.prefill_queries))
    return f"{len(ladder.shapes)} programs: {decode} replies at a time; {prefill} prompt tokens at a time"
