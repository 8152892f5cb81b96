"""The body of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from server.errors import quoted
from server.schemas.base import Body, fault
from server.schemas.sampling import MAX_TOP_LOGPROBS, GenerationBody

MAX_MESSAGES = 4096
_LATER = "'{}' is not supported by this server."
_REFUSED = (
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "audio",
    "prediction",
    "reasoning_effort",
    "verbosity",
    "web_search_options",
    "moderation",
)


class Message(Body):
    """One turn. A list of text parts becomes one text, a part a line."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | None = None
    name: Annotated[str, Field(max_length=256)] | None = None
    tool_call_id: Annotated[str, Field(max_length=256)] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise fault("must be an object with a role and content")
        ours = ("refusal", "annotations", "audio", "function_call")  # in the client's dumps of our own replies
        return {name: each for name, each in value.items() if each is not None and not (name in ours and not each)}

    @field_validator("content", mode="before")
    @classmethod
    def _text(cls, value: Any) -> str:
        if isinstance(value, str):
            return value
        if not isinstance(value, list) or not value:
            raise fault("must be a string or an array of text parts")
        texts = []
        for part in value:
            kind = part.get("type") if isinstance(part, dict) else None
            if kind != "text":
                shown = quoted(kind) if isinstance(kind, str) else "of unknown type"
                raise fault(f"only text parts are supported by this model, not {shown}")
            if not isinstance(part.get("text"), str) or set(part) - {"type", "text"}:
                raise fault("a text part must have exactly 'type' and 'text', a string")
            texts.append(part["text"])
        return "\n".join(texts)

    @model_validator(mode="after")
    def _content_where_needed(self) -> Message:
        if self.content is None and not self.tool_calls:
            raise fault("content is required")
        if self.tool_calls and self.role != "assistant":
            raise fault("only an assistant's message can hold tool_calls")
        return self

    def for_template(self) -> dict[str, Any]:
        """The message as templates expect it; they know no developer, whose word is the system's."""
        shown = self.model_dump(exclude_none=True)
        shown["content"] = self.content or ""
        if self.role == "developer":
            shown["role"] = "system"
        return shown


class ResponseFormat(Body):
    """The shape of the reply: free text."""

    type: str

    @field_validator("type")
    @classmethod
    def _text_alone(cls, value: str) -> str:
        if value != "text":
            raise fault(f"only 'text' is supported, not {quoted(value)}", "response_format")
        return value


class ChatBody(GenerationBody):
    """A call to answer a conversation."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    add_special_tokens: bool = False
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict, max_length=64)

    ignored: ClassVar[frozenset[str]] = GenerationBody.ignored | {"parallel_tool_calls", "prompt_cache_options"}
    refused: ClassVar[dict[str, str]] = {name: _LATER.format(name) for name in _REFUSED}

    @field_validator("messages", mode="before")
    @classmethod
    def _list_of_messages(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("response_format", mode="before")
    @classmethod
    def _only_a_type(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise fault("must be an object")
        return {"type": value["type"]} if "type" in value else {}

    @field_validator("modalities")
    @classmethod
    def _text_alone(cls, value: list[str]) -> list[str]:
        if value != ["text"]:
            raise fault('only ["text"] is supported')
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ChatBody:
        both = self.max_tokens is not None and self.max_completion_tokens is not None
        if both and self.max_tokens != self.max_completion_tokens:
            raise fault("differs from 'max_tokens'; set only one of them", "max_completion_tokens")
        if self.top_logprobs is not None and not self.logprobs:
            raise fault("only allowed when 'logprobs' is true", "top_logprobs")
        if self.continue_final_message and self.add_generation_prompt:
            raise fault("cannot be true together with 'add_generation_prompt'", "continue_final_message")
        return self
