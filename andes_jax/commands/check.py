"""andes-jax check: whether this machine can serve a model."""

from __future__ import annotations

from andes_jax.commands.options import takes_settings
from andes_jax.config import Config


@takes_settings("model", "engine", model="argument")
def check(config: Config) -> None:
    """Say whether this machine can serve MODEL: device, memory, model, compiled shapes, compile cache.

    The exit code is 1 when something is wrong.
    """
