"""The body of POST /v1/completions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from server.schemas.base import fault
from server.schemas.sampling import MAX_TOP_LOGPROBS, GenerationBody

Prompt = str | tuple[int, ...]


class CompletionBody(GenerationBody):
    """A call to continue one or more prompts, each text or token ids."""

    prompt: tuple[Prompt, ...]
    best_of: Annotated[int, Field(ge=1)] | None = None
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    add_special_tokens: bool = True

    refused: ClassVar[dict[str, str]] = {"suffix": "'suffix' is not supported: text is continued, not inserted."}

    @field_validator("prompt", mode="before")
    @classmethod
    def _prompts(cls, value: Any) -> tuple[Prompt, ...]:
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and value:
            if _token_ids(value):
                return (tuple(value),)
            if all(isinstance(each, str) for each in value):
                return tuple(value)
            if all(isinstance(each, list) and each and _token_ids(each) for each in value):
                return tuple(tuple(each) for each in value)
        raise fault("must be a string, an array of strings, an array of token ids, or an array of those; none empty")

    @model_validator(mode="after")
    def _no_choice_of_best(self) -> CompletionBody:
        if self.best_of is not None and self.best_of != self.n:
            raise fault("must equal 'n': candidates are not ranked here", "best_of")
        return self

    @property
    def prompt_count(self) -> int:
        return len(self.prompt)


def _token_ids(value: list[Any]) -> bool:
    return all(type(each) is int and each >= 0 for each in value)
