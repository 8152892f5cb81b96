"""What the server is given: the parts it speaks to, as protocols, and its own settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from andes_jax.clock import Clock, WallClock
from andes_jax.engine.contract import EngineContract as Engine
from andes_jax.profiling.steps import StepListener
from andes_jax.request import QoeTarget, Tier
from andes_jax.settings import EventLoopName

__all__ = ["ChatTemplate", "Engine", "ServerContext", "ServerSettings", "TokenTable", "Tokenizer"]


class TokenTable(Protocol):
    """The bytes of each token."""

    @property
    def strip_leading_space(self) -> bool: ...

    def bytes_of(self, token_id: int) -> bytes: ...

    def is_special(self, token_id: int) -> bool: ...


class Tokenizer(Protocol):
    """Text to tokens and back; thread-safe."""

    @property
    def table(self) -> TokenTable: ...

    @property
    def eos_ids(self) -> tuple[int, ...]: ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool = True) -> list[int]: ...

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str: ...


class ChatTemplate(Protocol):
    """Renders messages. Raises an exception whose words are fit for the caller on any fault of the messages."""

    def render(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str: ...


@dataclass(frozen=True)
class ServerSettings:
    """Who is served, where, and how much one call may ask for. Times are in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0 lets the system choose
    unix_socket: Path | None = None  # listen there as well
    certfile: Path | None = None  # with keyfile: TLS on host and port
    keyfile: Path | None = None
    insecure_port: int | None = None  # with TLS: a second port, in the clear
    grpc_port: int | None = None  # on host; TLS as on port
    api_keys: tuple[str, ...] = field(default=(), repr=False)  # none leaves the server open
    event_loop: EventLoopName = "auto"
    cors_origins: tuple[str, ...] = ()  # "*" is any
    max_body_bytes: int = 16 * 1024 * 1024
    max_pending_body_bytes: int = 256 * 1024 * 1024  # of all calls that are not admitted yet
    body_timeout_s: float = 30.0  # for the whole request body
    send_stall_s: float = 30.0  # how long a client may read nothing of what waits for it
    unread_timeout_s: float = 1.5  # how long a client may leave its stream unread before its replies are paused
    chunk_bytes: int = 4096  # of a stream's text, from which it does not wait for more
    send_interval_s: float = 0.05  # the longest that a stream's text waits for more
    adaptive_chunks: bool = True  # False: a stream's text leaves as soon as it comes
    keep_alive_s: float = 15.0  # for a connection without a call
    max_choices: int = 16  # n
    max_prompts: int = 128  # prompts of one completions call
    default_max_tokens: int | None = None  # of a reply whose call sets none; None: what is left of the context
    shutdown_timeout_s: float = 30.0  # that running replies get after SIGTERM
    data_dir: Path | None = None  # folder of uploaded files and batches; None: none are kept
    max_file_bytes: int = 200 * 1024 * 1024  # of an uploaded file
    request_log: Path | None = None  # file to which a line is added for each request that ended
    profile_streaming: bool = False  # log a line for each chunk of a stream
    shared_metrics: Path | None = None  # folder in which processes that serve the same addresses keep count together


_READER = QoeTarget(first_token_s=1.0, tokens_per_s=5.0)


@dataclass(frozen=True)
class ServerContext:
    """The parts of one serving process."""

    engine: Engine
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None  # None: the model has none, and chat calls are refused
    model_id: str
    settings: ServerSettings = ServerSettings()
    clock: Clock = field(default_factory=WallClock)  # the engine's
    created_s: int = 0  # Unix time of the model, for /v1/models
    fingerprint: str = "andes-jax"  # system_fingerprint of replies: model, version, settings that change outputs
    compiles_after_ready: Callable[[], int] = lambda: 0
    watch_steps: Callable[[StepListener], None] | None = None  # None: the engine is elsewhere and does not tell
    template_variables: Mapping[str, Any] = field(default_factory=dict)  # for every rendering
    # What readers expect unless their call says: of realtime and streaming always, of batch if somebody reads along.
    expectations: Mapping[Tier, QoeTarget] = field(
        default_factory=lambda: {Tier.REALTIME: _READER, Tier.STREAMING: _READER}
    )

    @property
    def context_length(self) -> int:
        """Tokens that one request can have, prompt and reply together."""
        limits = self.engine.limits
        return min(limits.max_model_len, limits.pool_tokens)
