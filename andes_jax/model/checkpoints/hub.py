"""Models from the Hugging Face hub, through huggingface_hub's own cache, settings and credentials."""

from __future__ import annotations

from pathlib import Path

import httpx
import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError

from andes_jax.model.checkpoints.base import CheckpointError

_WANTED = ["*.json", "*.safetensors", "*.model", "*.jinja", "merges.txt"]
_OTHER_FORMATS = ["*/*", "consolidated*"]  # of the same weights
_ANSWER_WITHIN_S = 5.0


def download(name: str, *, tried: Path) -> Path:
    """Fetch what a Hugging Face id ("owner/name") holds, or find it in the local cache, and return its folder.

    `tried` is the path that the name was not. Raises CheckpointError: at once where there is no network.
    """
    try:
        folder = huggingface_hub.snapshot_download(
            name, allow_patterns=_WANTED, ignore_patterns=_OTHER_FORMATS, etag_timeout=_ANSWER_WITHIN_S
        )
    except (OSError, ValueError, HfHubHTTPError, httpx.HTTPError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CheckpointError(
            f"{tried}: no such file or folder, and {name!r} cannot be fetched from Hugging Face: {reason}"
        ) from error
    return Path(folder)
