"""The bodies of POST /tokenize and /detokenize."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from server.schemas.base import Body, fault
from server.schemas.chat import MAX_MESSAGES, Message
from server.schemas.sampling import TokenId

MAX_TOKENS = 2**20  # of one call to show them as text


class TokenizeBody(Body):
    """A text, as `prompt` or `content`, or a conversation."""

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    add_special_tokens: bool | None = None  # None: for a text yes, for a conversation no, as its template has them
    add_generation_prompt: bool = True

    @field_validator("messages", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _one_of_three(self) -> TokenizeBody:
        if sum(each is not None for each in (self.prompt, self.content, self.messages)) != 1:
            raise fault("give exactly one of 'prompt', 'content' and 'messages'", "prompt")
        return self


class DetokenizeBody(Body):
    """Token ids to be shown as text."""

    model: str | None = None
    tokens: Annotated[tuple[TokenId, ...], Field(max_length=MAX_TOKENS)]
    skip_special_tokens: bool = False

    @field_validator("tokens", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value
