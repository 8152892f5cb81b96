"""What is asked of a summary, and how its text is cut."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import orjson

from andes_jax.failure import UsageError

Style = Literal["paragraph", "bullets", "headline"]
WORDS: dict[Style, int] = {"paragraph": 120, "bullets": 120, "headline": 12}  # unless given
VERSION = 1  # of the prompts and of how texts are cut: summaries of another one are not taken for finished


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """Options that change what summaries say. Raises UsageError for those that cannot be."""

    style: Style = "paragraph"
    words: int | None = None  # about so many, or characters of Chinese; None: by style
    lang: str | None = None  # to write in, a code or a name; None: the text's own
    question: str | None = None  # to look for an answer to
    chunk_tokens: int | None = None  # of text given to the model at once; None: what fits
    chunk_overlap: int = 128  # tokens at a chunk's start that its predecessor ends with
    temperature: float = 0.0
    seed: int = 0
    frequency_penalty: float = 0.0  # as in OpenAI's API: makes what was said often less likely

    def __post_init__(self) -> None:
        if self.style not in get_args(Style):
            raise UsageError(f"--style is {', '.join(get_args(Style))}, not {self.style!r}")
        if self.chunk_tokens is not None and self.chunk_overlap * 2 > self.chunk_tokens:
            raise UsageError("--chunk-overlap must be at most half of --chunk-tokens")

    @property
    def length(self) -> int:
        """Words of a summary, or characters of a Chinese one."""
        return self.words or WORDS[self.style]

    def as_json(self) -> dict[str, Any]:
        """For rows, with the version of the prompts."""
        return {**asdict(self), "words": self.length, "version": VERSION}

    def key(self, source_hash: str, model: str) -> str:
        """The same for the same summary of the same text by the same model."""
        data = orjson.dumps([source_hash, model, self.as_json()], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(data).hexdigest()
