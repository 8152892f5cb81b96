"""The parameters that chat and completions calls share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from andes_jax.request import Tier
from server.schemas.base import Body, fault

MAX_STOPS = 16
MAX_STOP_LENGTH = 1024  # characters
MAX_STOP_IDS = 16
MAX_BIASES = 300
MAX_TOP_LOGPROBS = 20

TokenId = Annotated[int, Field(ge=0)]


class StreamOptions(Body):
    """What a stream carries besides the reply."""

    include_usage: bool = False
    include_obfuscation: bool = False  # accepted; nothing is padded here


class Expectation(Body):
    """When the reader expects text. What is left out is as usual for the tier."""

    expected_ttft_ms: Annotated[float, Field(ge=0.001, le=3_600_000)] | None = None
    expected_tokens_per_s: Annotated[float, Field(ge=0.001, le=10_000)] | None = None


class GenerationBody(Body):
    """Sampling, limits and delivery of one call."""

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1, lt=2**31)] = 0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    n: Annotated[int, Field(ge=1)] = 1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[TokenId, ...] = Field((), max_length=MAX_STOP_IDS)
    ignore_eos: bool = False
    min_tokens: Annotated[int, Field(ge=0)] = 0
    skip_special_tokens: bool = True
    stream: bool = False
    stream_options: StreamOptions | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    prompt_cache_key: str | None = Field(None, max_length=1024)
    store: bool = False
    andes: Expectation | None = None

    ignored: ClassVar[frozenset[str]] = frozenset({"metadata", "user", "safety_identifier", "prompt_cache_retention"})

    @field_validator("stop", mode="before")
    @classmethod
    def _stop_strings(cls, value: Any) -> tuple[str, ...]:
        stops = [value] if isinstance(value, str) else value
        if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
            raise fault("must be a string or an array of strings")
        if len(stops) > MAX_STOPS:
            raise fault(f"at most {MAX_STOPS} stop strings can be given, not {len(stops)}")
        if not all(0 < len(stop) <= MAX_STOP_LENGTH for stop in stops):
            raise fault(f"stop strings must have 1 to {MAX_STOP_LENGTH} characters")
        return tuple(stops)

    @field_validator("stop_token_ids", mode="before")
    @classmethod
    def _stop_ids(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("logit_bias", mode="before")
    @classmethod
    def _biases(cls, value: Any) -> tuple[tuple[int, float], ...]:
        if not isinstance(value, dict):
            raise fault("must be an object that maps token ids to numbers")
        if len(value) > MAX_BIASES:
            raise fault(f"at most {MAX_BIASES} biases can be given, not {len(value)}")
        biases = {}
        for key, bias in value.items():
            if not (key.isascii() and key.isdigit() and len(key) <= 10):
                raise fault('every name must be a token id, such as "50256"')
            if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
                raise fault("every bias must be a number between -100 and 100")
            biases[int(key)] = float(bias)
        return tuple(sorted(biases.items()))

    @field_validator("store", mode="after")
    @classmethod
    def _nothing_is_stored(cls, value: bool) -> bool:
        if value:
            raise fault("replies are not stored here; leave it out or send false")
        return value

    @model_validator(mode="after")
    def _options_with_stream(self) -> GenerationBody:
        if self.stream_options is not None and not self.stream:
            raise fault("only allowed when 'stream' is true", "stream_options")
        return self

    @property
    def prompt_count(self) -> int:
        """Prompts, each of which gets n replies."""
        return 1

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a usage chunk."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def tier(self) -> Tier:
        """Who waits: named by service_tier, or else a reader if the reply is streamed."""
        if self.service_tier == "priority":
            return Tier.REALTIME
        if self.service_tier == "flex":
            return Tier.BATCH
        return Tier.REALTIME if self.stream else Tier.STREAMING

    @property
    def tier_used(self) -> str:
        """The reply's service_tier."""
        return self.service_tier if self.service_tier in ("flex", "priority") else "default"
