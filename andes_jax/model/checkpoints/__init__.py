"""Models on disk: GGUF files, Hugging Face folders, and andes-jax's own Orbax folders."""

from andes_jax.model.checkpoints.base import Checkpoint, CheckpointError, ShardingOf
from andes_jax.model.checkpoints.orbax import write_orbax
from andes_jax.model.checkpoints.source import embedded_model_path, open_checkpoint

__all__ = ["Checkpoint", "CheckpointError", "ShardingOf", "embedded_model_path", "open_checkpoint", "write_orbax"]
