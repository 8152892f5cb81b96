from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content", "name")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    name: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Conversation(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("text", "token_ids", "conversation", "model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "stop", "stop_token_ids", "ignore_eos", "min_tokens", "service_tier", "expected_ttft_ms", "expected_tokens_per_s")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_TIER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TTFT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: TokenIds
    conversation: Conversation
    model: str
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_eos: bool
    min_tokens: int
    service_tier: str
    expected_ttft_ms: float
    expected_tokens_per_s: float
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., conversation: _Optional[_Union[Conversation, _Mapping]] = ..., model: _Optional[str] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., seed: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: _Optional[bool] = ..., min_tokens: _Optional[int] = ..., service_tier: _Optional[str] = ..., expected_ttft_ms: _Optional[float] = ..., expected_tokens_per_s: _Optional[float] = ...) -> None: ...

class GenerateReply(_message.Message):
    __slots__ = ("id", "text", "token_ids", "finish_reason", "usage")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: str
    usage: Usage
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: _Optional[bool] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FrontEndMessage(_message.Message):
    __slots__ = ("submission", "cancelled", "paused", "resumed")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    submission: Submission
    cancelled: Handles
    paused: Handles
    resumed: Handles
    def __init__(self, submission: _Optional[_Union[Submission, _Mapping]] = ..., cancelled: _Optional[_Union[Handles, _Mapping]] = ..., paused: _Optional[_Union[Handles, _Mapping]] = ..., resumed: _Optional[_Union[Handles, _Mapping]] = ...) -> None: ...

class Submission(_message.Message):
    __slots__ = ("number", "requests")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    requests: _containers.RepeatedCompositeFieldContainer[Request]
    def __init__(self, number: _Optional[int] = ..., requests: _Optional[_Iterable[_Union[Request, _Mapping]]] = ...) -> None: ...

class Handles(_message.Message):
    __slots__ = ("handles",)
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("handle", "id", "prompt_ids", "sampling", "tier", "qoe", "arrived_s", "stop", "session", "skip_special_tokens")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    QOE_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_S_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    id: str
    prompt_ids: _containers.RepeatedScalarFieldContainer[int]
    sampling: Sampling
    tier: int
    qoe: QoeTarget
    arrived_s: float
    stop: _containers.RepeatedScalarFieldContainer[str]
    session: str
    skip_special_tokens: bool
    def __init__(self, handle: _Optional[int] = ..., id: _Optional[str] = ..., prompt_ids: _Optional[_Iterable[int]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., tier: _Optional[int] = ..., qoe: _Optional[_Union[QoeTarget, _Mapping]] = ..., arrived_s: _Optional[float] = ..., stop: _Optional[_Iterable[str]] = ..., session: _Optional[str] = ..., skip_special_tokens: _Optional[bool] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "biased_ids", "biases", "seed", "choice", "stop_ids", "min_tokens", "top_logprobs", "prompt_logprobs")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    BIASED_IDS_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    STOP_IDS_FIELD_NUMBER: _ClassVar[int]
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    biased_ids: _containers.RepeatedScalarFieldContainer[int]
    biases: _containers.RepeatedScalarFieldContainer[float]
    seed: int
    choice: int
    stop_ids: _containers.RepeatedScalarFieldContainer[int]
    min_tokens: int
    top_logprobs: int
    prompt_logprobs: bool
    def __init__(self, max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., biased_ids: _Optional[_Iterable[int]] = ..., biases: _Optional[_Iterable[float]] = ..., seed: _Optional[int] = ..., choice: _Optional[int] = ..., stop_ids: _Optional[_Iterable[int]] = ..., min_tokens: _Optional[int] = ..., top_logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[bool] = ...) -> None: ...

class QoeTarget(_message.Message):
    __slots__ = ("first_token_s", "tokens_per_s")
    FIRST_TOKEN_S_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    first_token_s: float
    tokens_per_s: float
    def __init__(self, first_token_s: _Optional[float] = ..., tokens_per_s: _Optional[float] = ...) -> None: ...

class EngineMessage(_message.Message):
    __slots__ = ("welcome", "taken", "step", "state", "room")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    welcome: Description
    taken: Taken
    step: Step
    state: str
    room: int
    def __init__(self, welcome: _Optional[_Union[Description, _Mapping]] = ..., taken: _Optional[_Union[Taken, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., state: _Optional[str] = ..., room: _Optional[int] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ("number", "refusal")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    number: int
    refusal: Refusal
    def __init__(self, number: _Optional[int] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("message", "code", "param")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    message: str
    code: str
    param: str
    def __init__(self, message: _Optional[str] = ..., code: _Optional[str] = ..., param: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("handles", "emitted_s", "texts", "counts", "token_ids", "rest")
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    EMITTED_S_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    emitted_s: _containers.RepeatedScalarFieldContainer[float]
    texts: _containers.RepeatedScalarFieldContainer[str]
    counts: _containers.RepeatedScalarFieldContainer[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    rest: _containers.RepeatedCompositeFieldContainer[EventRest]
    def __init__(self, handles: _Optional[_Iterable[int]] = ..., emitted_s: _Optional[_Iterable[float]] = ..., texts: _Optional[_Iterable[str]] = ..., counts: _Optional[_Iterable[int]] = ..., token_ids: _Optional[_Iterable[int]] = ..., rest: _Optional[_Iterable[_Union[EventRest, _Mapping]]] = ...) -> None: ...

class EventRest(_message.Message):
    __slots__ = ("index", "logprobs", "prompt_logprobs", "finish", "message", "usage")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    index: int
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprobs]
    prompt_logprobs: PromptLogprobs
    finish: str
    message: str
    usage: Usage
    def __init__(self, index: _Optional[int] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprobs, _Mapping]]] = ..., prompt_logprobs: _Optional[_Union[PromptLogprobs, _Mapping]] = ..., finish: _Optional[str] = ..., message: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class TokenLogprobs(_message.Message):
    __slots__ = ("token_id", "logprob", "top_ids", "top_logprobs")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    TOP_IDS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    token_id: int
    logprob: float
    top_ids: _containers.RepeatedScalarFieldContainer[int]
    top_logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, token_id: _Optional[int] = ..., logprob: _Optional[float] = ..., top_ids: _Optional[_Iterable[int]] = ..., top_logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class PromptLogprobs(_message.Message):
    __slots__ = ("positions",)
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[MaybeLogprobs]
    def __init__(self, positions: _Optional[_Iterable[_Union[MaybeLogprobs, _Mapping]]] = ...) -> None: ...

class MaybeLogprobs(_message.Message):
    __slots__ = ("logprobs",)
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    logprobs: TokenLogprobs
    def __init__(self, logprobs: _Optional[_Union[TokenLogprobs, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "cached_tokens", "qoe", "waited_s", "preemptions")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QOE_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    qoe: float
    waited_s: float
    preemptions: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., qoe: _Optional[float] = ..., waited_s: _Optional[float] = ..., preemptions: _Optional[int] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Description(_message.Message):
    __slots__ = ("version", "model", "identity", "text", "fingerprint", "limits", "expectations", "now_s")
    class ExpectationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: QoeTarget
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[QoeTarget, _Mapping]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    EXPECTATIONS_FIELD_NUMBER: _ClassVar[int]
    NOW_S_FIELD_NUMBER: _ClassVar[int]
    version: str
    model: str
    identity: str
    text: str
    fingerprint: str
    limits: Limits
    expectations: _containers.MessageMap[int, QoeTarget]
    now_s: float
    def __init__(self, version: _Optional[str] = ..., model: _Optional[str] = ..., identity: _Optional[str] = ..., text: _Optional[str] = ..., fingerprint: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., expectations: _Optional[_Mapping[int, QoeTarget]] = ..., now_s: _Optional[float] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_model_len", "max_sequences", "pool_tokens", "max_live")
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    POOL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_LIVE_FIELD_NUMBER: _ClassVar[int]
    max_model_len: int
    max_sequences: int
    pool_tokens: int
    max_live: int
    def __init__(self, max_model_len: _Optional[int] = ..., max_sequences: _Optional[int] = ..., pool_tokens: _Optional[int] = ..., max_live: _Optional[int] = ...) -> None: ...

class StatisticsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PerTier(_message.Message):
    __slots__ = ("realtime", "streaming", "batch")
    REALTIME_FIELD_NUMBER: _ClassVar[int]
    STREAMING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    realtime: int
    streaming: int
    batch: int
    def __init__(self, realtime: _Optional[int] = ..., streaming: _Optional[int] = ..., batch: _Optional[int] = ...) -> None: ...

class EngineStatistics(_message.Message):
    __slots__ = ("running", "waiting", "slots_free", "pages_free", "pages_cached", "pages_live", "pages_total", "fragmentation", "steps", "preemptions", "paused", "host_pages_used", "saved_pages", "loaded_pages", "recomputed_tokens", "prefix_hit_tokens", "prompt_tokens", "generated_tokens", "step_failures", "invariant_failures", "sink_failures", "finished", "host_s", "device_s", "compiles_after_ready", "state")
    class FinishedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FREE_FIELD_NUMBER: _ClassVar[int]
    PAGES_FREE_FIELD_NUMBER: _ClassVar[int]
    PAGES_CACHED_FIELD_NUMBER: _ClassVar[int]
    PAGES_LIVE_FIELD_NUMBER: _ClassVar[int]
    PAGES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTATION_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    HOST_PAGES_USED_FIELD_NUMBER: _ClassVar[int]
    SAVED_PAGES_FIELD_NUMBER: _ClassVar[int]
    LOADED_PAGES_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STEP_FAILURES_FIELD_NUMBER: _ClassVar[int]
    INVARIANT_FAILURES_FIELD_NUMBER: _ClassVar[int]
    SINK_FAILURES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    HOST_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_S_FIELD_NUMBER: _ClassVar[int]
    COMPILES_AFTER_READY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    running: PerTier
    waiting: PerTier
    slots_free: int
    pages_free: int
    pages_cached: int
    pages_live: int
    pages_total: int
    fragmentation: float
    steps: int
    preemptions: int
    paused: int
    host_pages_used: int
    saved_pages: int
    loaded_pages: int
    recomputed_tokens: int
    prefix_hit_tokens: int
    prompt_tokens: int
    generated_tokens: int
    step_failures: int
    invariant_failures: int
    sink_failures: int
    finished: _containers.ScalarMap[str, int]
    host_s: float
    device_s: float
    compiles_after_ready: int
    state: str
    def __init__(self, running: _Optional[_Union[PerTier, _Mapping]] = ..., waiting: _Optional[_Union[PerTier, _Mapping]] = ..., slots_free: _Optional[int] = ..., pages_free: _Optional[int] = ..., pages_cached: _Optional[int] = ..., pages_live: _Optional[int] = ..., pages_total: _Optional[int] = ..., fragmentation: _Optional[float] = ..., steps: _Optional[int] = ..., preemptions: _Optional[int] = ..., paused: _Optional[int] = ..., host_pages_used: _Optional[int] = ..., saved_pages: _Optional[int] = ..., loaded_pages: _Optional[int] = ..., recomputed_tokens: _Optional[int] = ..., prefix_hit_tokens: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., generated_tokens: _Optional[int] = ..., step_failures: _Optional[int] = ..., invariant_failures: _Optional[int] = ..., sink_failures: _Optional[int] = ..., finished: _Optional[_Mapping[str, int]] = ..., host_s: _Optional[float] = ..., device_s: _Optional[float] = ..., compiles_after_ready: _Optional[int] = ..., state: _Optional[str] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: bytes
    def __init__(self, record: _Optional[bytes] = ...) -> None: ...
