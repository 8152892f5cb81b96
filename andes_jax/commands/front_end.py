"""What `andes-jax serve --engine` does: the text side of a model here, and the engine elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import andes_jax
from andes_jax.config import Config

if TYPE_CHECKING:
    from andes_jax.remote.client import RemoteEngine
    from andes_jax.remote.description import Description
    from andes_jax.text.chat import ChatTemplate
    from andes_jax.text.tokenizer import Tokenizer


def connect(
    config: Config, progress: Callable[[str], None]
) -> tuple[RemoteEngine, Tokenizer, ChatTemplate | None, Description]:
    """Open the model without its weights and wait for the engine; what the engine says of itself is the last.

    Raises CheckpointError, EngineMismatch for an engine with another model, and OSError for a file of certificates.
    """
    from andes_jax.build import model_id
    from andes_jax.model.checkpoints import open_checkpoint
    from andes_jax.model.identity import model_identity
    from andes_jax.remote.client import RemoteEngine
    from andes_jax.remote.description import Description
    from andes_jax.remote.link import LinkSettings

    chosen = config.server
    assert chosen.engine is not None
    checkpoint = open_checkpoint(config.model.source)
    tokenizer = checkpoint.tokenizer()
    expected = Description(
        version=andes_jax.__version__,
        model=chosen.model_name or model_id(config),
        identity=model_identity(checkpoint.spec, tokenizer),
    )
    remote = RemoteEngine(LinkSettings(chosen.engine, chosen.engine_ca, chosen.engine_key), expected)
    progress(f"connecting to the engine at {chosen.engine}")
    remote.start()
    try:
        found = remote.wait_connected(lambda why: progress(f"waiting for the engine at {chosen.engine}: {why}"))
    except BaseException:
        remote.stop(0)
        raise
    return remote, tokenizer, checkpoint.chat_template(), found
