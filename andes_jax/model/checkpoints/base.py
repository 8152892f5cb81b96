"""What every kind of checkpoint offers, and the check of its tensors against its spec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import jax
import numpy as np
from jax.typing import DTypeLike

from andes_jax.failure import UserError
from andes_jax.model.spec import ModelSpec, expected_shapes
from andes_jax.text.chat import ChatTemplate
from andes_jax.text.tokenizer import Tokenizer

# From a canonical tensor name and its shape to where the array shall live.
ShardingOf = Callable[[str, tuple[int, ...]], jax.sharding.Sharding]

_NAMES_SHOWN = 3


class CheckpointError(UserError):
    """A model that cannot be read: one line naming the file, as its path was resolved, and what is wrong with it."""


class Checkpoint(ABC):
    """A model on disk, opened and checked; its weights are read only when asked for.

    Tensor names are canonical: Hugging Face's without the leading "model."; projections are [out, in]; norm weights
    are the actual multipliers; query and key rows are in half-split RoPE order.
    """

    source: str  # the path or name the model came from, for people
    spec: ModelSpec

    @abstractmethod
    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield every canonical tensor once, one at a time, in the precision the file gives (float32 if quantised).

        An array may be a read-only view of the file. Raises CheckpointError.
        """

    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Build the model's tokenizer. Raises CheckpointError where the checkpoint has none that works."""

    @abstractmethod
    def chat_template(self) -> ChatTemplate | None:
        """The model's chat template, or None for a model without one."""

    @abstractmethod
    def save_tokenizer(self, folder: Path) -> None:
        """Write into an existing folder what tokenizer() and chat_template() are built from."""

    def arrays(self, dtype: DTypeLike, sharding: ShardingOf | None = None) -> Iterator[tuple[str, jax.Array]]:
        """Yield every canonical tensor as a device array of dtype, placed by sharding or on the default device.

        Raises CheckpointError.
        """
        for name, tensor in self.tensors():
            target = None if sharding is None else sharding(name, tensor.shape)
            yield name, jax.device_put(np.asarray(tensor, dtype), target, may_alias=False)


def validate(file: str, spec: ModelSpec, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compare canonical tensor names and shapes with what the spec requires. Raises CheckpointError."""
    expected = expected_shapes(spec)
    if missing := [name for name in expected if name not in shapes]:
        raise CheckpointError(f"{file}: {_some(missing)} missing, of {len(expected)} tensors this model needs")
    if extra := [name for name in shapes if name not in expected]:
        raise CheckpointError(f"{file}: {_some(extra)} not part of a {spec.family} model")
    for name, shape in expected.items():
        if tuple(shapes[name]) != shape:
            raise CheckpointError(f"{file}: tensor {name} has shape {list(shapes[name])}, needs {list(shape)}")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    verb = "is" if len(names) == 1 else "are"
    return f"tensor{'s' if len(names) > 1 else ''} {shown}{f' and {more} more' if more > 0 else ''} {verb}"
