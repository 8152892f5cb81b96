"""Every setting: its meaning and its bounds. Where the values come from is config.py's business."""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.fields import FieldInfo

from andes_jax.byte_size import ByteSize

Port = Annotated[int, Field(ge=0, le=65535)]
PolicyName = Literal["three_tier", "fcfs", "round_robin", "andes_paper"]
Goal = Literal["mean", "max_min"]
LogLevel = Literal["debug", "info", "warning", "error"]
EventLoopName = Literal["auto", "uvloop", "asyncio"]


class Section(BaseModel):
    """Settings that belong together. Defaults live in configs/default.yaml alone, so every field is required here."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_as_number(cls, value: Any, info: Any) -> Any:
        if isinstance(value, bool) and cls.model_fields[info.field_name].annotation is not bool:
            raise ValueError("is true or false, and should not be")
        return value


class ModelSettings(Section):
    """Which model is served, and how it is held."""

    source: str | None = Field(
        description="A GGUF file, a safetensors or Orbax folder, or a Hugging Face id; null is the embedded "
        "SmolLM2-135M-Instruct.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        description="Type of weights, activations and the key-value cache; auto is bfloat16 on GPUs "
        "and on CPUs that multiply it in hardware, else float32."
    )
    max_model_len: int | None = Field(
        ge=16, description="Tokens of prompt and reply together; null is what the model was trained for, at most 8192."
    )


class EngineSettings(Section):
    """How much is computed and kept at a time."""

    max_sequences: int = Field(ge=1, le=1024, description="Replies generated at the same time.")
    step_tokens: int = Field(ge=1, le=65536, description="Tokens computed in one step, prompts and replies together.")
    prefill_chunk: int = Field(ge=1, le=65536, description="Prompt tokens of one request computed in one step.")
    page_tokens: int | None = Field(
        ge=1, le=1024, description="Tokens in one page of the key-value cache; null is 64 on CPUs and 16 on GPUs."
    )
    kv_pool_bytes: ByteSize | None = Field(
        ge=1, description="Size of the key-value cache, like 512MiB; null sizes it from max_sequences and free memory."
    )
    host_kv_bytes: ByteSize = Field(
        ge=0,
        description="Host memory for the keys and values of paused replies; 0 recomputes them when they go on.",
    )
    max_waiting: int = Field(ge=0, le=1_000_000, description="Requests that may wait before more are refused with 503.")
    attention: Literal["auto", "native", "xla", "mosaic"] = Field(
        description="Paged attention: native is C++ that is compiled for this CPU at the first start, mosaic is "
        "kernels for NVIDIA GPUs of CUDA capability 8.0, 8.6 and 9.0, xla runs everywhere and is slower; auto takes "
        "mosaic on GPUs, native on CPUs with a C++ compiler, and else xla."
    )
    prefix_cache: bool = Field(description="Reuse the keys and values of a beginning that prompts have in common.")
    compile_cache_dir: Path = Field(
        description="Where compiled programs are kept between starts; null is andes-jax/compiled in the user's cache "
        "folder."
    )
    warmup: bool = Field(
        description="Compile every shape before the server says ready; without it the first requests pay for that."
    )

    @model_validator(mode="after")
    def _a_token_for_every_sequence(self) -> EngineSettings:
        if self.step_tokens < self.max_sequences:
            raise ValueError(
                f"engine.step_tokens ({self.step_tokens}) must be at least engine.max_sequences "
                f"({self.max_sequences}), so that every running reply gets its token in every step"
            )
        return self


class SchedulingSettings(Section):
    """In which order work is done."""

    policy: PolicyName = Field(
        description="three_tier: tiers, readers' needs and cost; fcfs: the order of arrival; round_robin: turns; "
        "andes_paper: the policy of the Andes paper, to compare with."
    )
    goal: Goal = Field(description="What three_tier aims for: the mean quality of experience, or the worst one's.")
    alpha: float = Field(ge=0, le=100, description="Weight of interactivity in a request's priority.")
    beta: float = Field(ge=0, le=100, description="Weight of the time waited, in units of the tier's allowed wait.")
    gamma: float = Field(ge=0, le=100, description="Weight of how little a request is expected to cost.")
    realtime_wait: float = Field(gt=0, le=86400, description="Allowed wait of the realtime tier, in seconds.")
    streaming_wait: float = Field(gt=0, le=86400, description="Allowed wait of the streaming tier, in seconds.")
    batch_wait: float = Field(gt=0, le=86400, description="Allowed wait of the batch tier, in seconds.")
    tier_lift: float = Field(
        gt=0,
        le=86400,
        description="Seconds without service after which a request ranks one tier higher, so that nothing starves.",
    )
    max_preempt: int = Field(ge=0, le=1000, description="Times a request may lose its pages or slot to another.")
    realtime_ttft: float = Field(
        gt=0, le=3600, description="Seconds in which a realtime reader expects the first token, unless the call says."
    )
    realtime_speed: float = Field(
        gt=0, le=10_000, description="Tokens per second that a realtime reader reads, unless the call says."
    )
    streaming_ttft: float = Field(
        gt=0, le=3600, description="Seconds in which a streaming reader expects the first token, unless the call says."
    )
    streaming_speed: float = Field(
        gt=0, le=10_000, description="Tokens per second that a streaming reader reads, unless the call says."
    )
    realtime_aim: float = Field(
        gt=0, le=60, description="Seconds to a realtime reply's first token that steps are kept short enough for."
    )
    burst_reserve: float = Field(
        ge=0, lt=1, description="Share of the key-value cache that batch work may not enter, kept for bursts of others."
    )
    warmup_iters: int = Field(
        ge=0, le=100_000, description="Steps in which step times are learnt before predictions of them steer."
    )


class ServerSettings(Section):
    """Who is served, and where."""

    host: str = Field(min_length=1, description="Address to listen on; 0.0.0.0 is every IPv4 interface.")
    port: Port = Field(description="Port to listen on; 0 lets the system choose.")
    api_keys: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        repr=False,
        description="Keys of which every request but a health check must carry one; none leaves the server open. "
        "Prefer the variable to the flag: other users of the machine can read flags.",
    )
    certfile: Path | None = Field(description="TLS certificate chain, PEM; with keyfile it turns TLS on.")
    keyfile: Path | None = Field(description="Private key of the certificate, PEM.")
    insecure_port: Port | None = Field(description="With TLS: a second port that serves in the clear.")
    unix_socket: Path | None = Field(description="A Unix socket to listen on as well.")
    grpc_port: Port | None = Field(
        description="A port that serves text by gRPC beside HTTP (service andes.v1.Generation), with the same "
        "certificate and keys; null: none."
    )
    engine: str | None = Field(
        min_length=1,
        description="HOST:PORT or unix:PATH of an engine that `andes-jax engine` runs: this process then loads no "
        "weights and serves as one of its front ends; null runs an engine in this process.",
    )
    engine_ca: Path | None = Field(
        description="Certificates, PEM, one of which signed that engine's: the link to it is then TLS; null: in the "
        "clear."
    )
    engine_key: str | None = Field(min_length=1, repr=False, description="Key that this engine asks for.")
    http_workers: int = Field(
        ge=0,
        le=256,
        description="Processes that serve connections beside the engine's, on the same addresses; 0 serves them in the "
        "engine's own process, which is enough until the engine waits for it.",
    )
    event_loop: EventLoopName = Field(
        description="The event loop that serves connections: uvloop, which takes less time for each token, asyncio, "
        "Python's own, or auto, which is uvloop where it is installed."
    )
    cors_origins: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        description="Origins whose pages may call this server, such as http://localhost:3000; * is any."
    )
    shutdown_timeout: float = Field(ge=0, le=3600, description="Seconds that running replies get after SIGTERM.")
    body_timeout: float = Field(gt=0, le=3600, description="Seconds a client may take to send a request's body.")
    stall_timeout: float = Field(
        gt=0, le=3600, description="Seconds a client may read nothing of what waits for it before it is cut off."
    )
    timeout_ms: int = Field(
        ge=1,
        le=3_600_000,
        description="Milliseconds a client may leave its stream unread before its reply is paused, until it reads "
        "again; twice as long on links with round trips above 300 ms.",
    )
    adaptive_chunks: bool = Field(
        description="Let a stream's text wait for more where that costs its reader nothing: behind bytes that have "
        "not left yet, or while the reader is far ahead of it; without it every token leaves by itself."
    )
    chunk_size: ByteSize = Field(
        ge=256,
        le=16384,
        description="Bytes of text from which a stream waits for no more; up to four times as many, 16 KiB at most, "
        "where round trips are as short as on a LAN, and half of it above 50 streams.",
    )
    send_interval_ms: int = Field(
        ge=0, le=1000, description="Milliseconds that a stream's text waits for more at most."
    )
    keep_alive: float = Field(ge=0, le=3600, description="Seconds that a connection without a call is kept open.")
    max_body_bytes: ByteSize = Field(ge=1024, description="Largest request body, like 16MiB.")
    max_pending_bytes: ByteSize = Field(
        ge=1024, description="Bytes of request bodies that are being received and read at the same time, together."
    )
    max_choices: int = Field(ge=1, le=128, description="Largest n of one call.")
    max_prompts: int = Field(ge=1, le=4096, description="Most prompts of one completions call.")
    default_max_tokens: int | None = Field(
        ge=1, description="Longest reply to a call that sets no limit, in tokens; null is what is left of the context."
    )
    model_name: str | None = Field(
        min_length=1, description="The model's name in the API; null takes it from the source."
    )
    data_dir: Path = Field(
        description="Folder of uploaded files and batches, made when they are first used; null is andes-jax in the "
        "user's state folder. Servers that share it see each other's, and work on those of their own model."
    )
    max_file_bytes: ByteSize = Field(ge=1024, description="Largest file that may be uploaded, like 200MiB.")
    request_log: Path | None = Field(
        description="File to which a line of JSON is added for each finished request: lengths, times, quality of "
        "experience and why it waited; `andes-jax simulate --trace` and `andes-jax explain --log` read it."
    )
    profile_streaming: bool = Field(
        description="Log a line STREAM_CHUNK for each chunk of a stream: how long its tokens took to generate, waited "
        "and took to send, which bound was broken and the likely cause; `andes-jax profile-stream` sums them up."
    )
    log_level: LogLevel = Field(description="Least serious messages that are logged.")

    @model_validator(mode="after")
    def _certificate_with_key(self) -> ServerSettings:
        if (self.certfile is None) != (self.keyfile is None):
            raise ValueError("server.certfile and server.keyfile go together: give both or none")
        return self

    @model_validator(mode="after")
    def _insecure_port_beside_tls(self) -> ServerSettings:
        if self.insecure_port is None:
            return self
        if self.certfile is None:
            raise ValueError(
                "server.insecure_port is a second port beside TLS: give server.certfile and server.keyfile too, "
                "or only server.port to serve in the clear"
            )
        if self.insecure_port == self.port != 0:
            raise ValueError(f"server.insecure_port and server.port are both {self.port}: give two ports")
        return self

    @model_validator(mode="after")
    def _link_with_an_engine(self) -> ServerSettings:
        if self.engine is None and not (self.engine_ca is None and self.engine_key is None):
            raise ValueError("server.engine_ca and server.engine_key are for server.engine: give its address too")
        return self


class Config(Section):
    """All settings."""

    model: ModelSettings
    engine: EngineSettings
    scheduling: SchedulingSettings
    server: ServerSettings


SECTIONS: dict[str, type[Section]] = {
    "model": ModelSettings,
    "engine": EngineSettings,
    "scheduling": SchedulingSettings,
    "server": ServerSettings,
}


def environment_name(section: str, field: str) -> str:
    """The variable that sets a field, such as ANDES_SERVER_PORT."""
    return f"ANDES_{section}_{field}".upper()


def flag_name(field: str) -> str:
    """The command-line flag that sets a field, such as --max-sequences. Field names are unique over the sections."""
    return "MODEL" if field == "source" else "--" + field.replace("_", "-")


def field_type(info: FieldInfo) -> tuple[Any, list[Any]]:
    """A field's type without None and annotations, and what annotated it: bounds and validators."""
    kind, extras = info.annotation, list(info.metadata)
    while get_origin(kind) in (Annotated, Union, UnionType):
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            extras += [part for extra in more for part in getattr(extra, "metadata", [extra])]
        else:
            kind = next(each for each in get_args(kind) if each is not type(None))
    return kind, extras
