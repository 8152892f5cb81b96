"""Requests, refusals and events as messages and back, without loss. What is wrong in a message raises ValueError."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from andes_jax.events import TokenEvent, TokenLogprobs, Usage
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.request import FinishReason, QoeTarget, Refusal, Request, SamplingParams, Tier

_PLAIN_SAMPLING = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "choice",
    "min_tokens",
    "prompt_logprobs",
)
_PLAIN = TokenEvent("", 0.0)[4:]  # what most events have after their token ids


def pack_request(request: Request, handle: int) -> pb.Request:
    """The request under a handle. Raises ValueError for numbers and texts that the protocol cannot hold."""
    sampling = request.sampling
    packed = pb.Sampling(
        **{name: getattr(sampling, name) for name in _PLAIN_SAMPLING},
        biased_ids=[token_id for token_id, _ in sampling.logit_bias],
        biases=[bias for _, bias in sampling.logit_bias],
        stop_ids=sampling.stop_ids,
        top_logprobs=sampling.top_logprobs,
    )
    return pb.Request(
        handle=handle,
        id=request.id,
        prompt_ids=request.prompt_ids,
        sampling=packed,
        tier=request.tier,
        qoe=None if request.qoe is None else pack_target(request.qoe),
        arrived_s=request.arrived_s,
        stop=request.stop,
        session=request.session,
        skip_special_tokens=request.skip_special_tokens,
    )


def unpack_request(packed: pb.Request) -> Request:
    """The request, whose handle is `packed.handle`."""
    sampling = packed.sampling
    return Request(
        id=packed.id,
        prompt_ids=tuple(packed.prompt_ids),
        sampling=SamplingParams(
            **{name: getattr(sampling, name) for name in _PLAIN_SAMPLING},
            logit_bias=tuple(zip(sampling.biased_ids, sampling.biases, strict=True)),
            stop_ids=tuple(sampling.stop_ids),
            top_logprobs=sampling.top_logprobs if sampling.HasField("top_logprobs") else None,
        ),
        tier=Tier(packed.tier),
        qoe=unpack_target(packed.qoe) if packed.HasField("qoe") else None,
        arrived_s=packed.arrived_s,
        stop=tuple(packed.stop),
        session=packed.session if packed.HasField("session") else None,
        skip_special_tokens=packed.skip_special_tokens,
    )


def pack_target(target: QoeTarget) -> pb.QoeTarget:
    """When a reader expects text."""
    return pb.QoeTarget(first_token_s=target.first_token_s, tokens_per_s=target.tokens_per_s)


def unpack_target(packed: pb.QoeTarget) -> QoeTarget:
    """The way back."""
    return QoeTarget(packed.first_token_s, packed.tokens_per_s)


def pack_refusal(refusal: Refusal) -> pb.Refusal:
    """Why requests were not taken."""
    return pb.Refusal(message=refusal.message, code=refusal.code, param=refusal.param)


def unpack_refusal(packed: pb.Refusal) -> Refusal:
    """The way back."""
    return Refusal(packed.message, packed.code, packed.param if packed.HasField("param") else None)


def pack_step(events: Sequence[TokenEvent], handle_of: Callable[[str], int]) -> pb.Step:
    """The events of one step; `handle_of` gives the handle for a request's id."""
    times = {event.emitted_s for event in events}
    step = pb.Step(
        handles=[handle_of(event.request_id) for event in events],
        emitted_s=times if len(times) == 1 else [event.emitted_s for event in events],
        texts=[event.text for event in events],
        counts=[len(event.token_ids) for event in events],
        token_ids=[token_id for event in events for token_id in event.token_ids],
    )
    for index, event in enumerate(events):
        if event[4:] != _PLAIN:
            step.rest.append(_pack_rest(index, event))
    return step


def unpack_step(step: pb.Step, ids: Mapping[int, str]) -> list[TokenEvent]:
    """The events, in order, but for those whose handle is not in `ids`. Raises ValueError for columns that differ."""
    count = len(step.handles)
    times = list(step.emitted_s) if len(step.emitted_s) != 1 else [step.emitted_s[0]] * count
    token_ids = list(step.token_ids)
    if sum(step.counts) != len(token_ids):
        raise ValueError(f"a step counts {sum(step.counts)} token ids and has {len(token_ids)}")
    events: list[TokenEvent] = []
    rest = {each.index: each for each in step.rest}
    at = 0
    columns = zip(step.handles, times, step.texts, step.counts, strict=True)
    for index, (handle, emitted_s, text, length) in enumerate(columns):
        request_id = ids.get(handle)
        drawn = tuple(token_ids[at : at + length])
        at += length
        if request_id is None:
            continue
        event = TokenEvent(request_id, emitted_s, text, drawn)
        events.append(_with_rest(event, rest[index]) if index in rest else event)
    return events


def _pack_rest(index: int, event: TokenEvent) -> pb.EventRest:
    prompt = event.prompt_logprobs
    return pb.EventRest(
        index=index,
        logprobs=[_pack_logprobs(each) for each in event.logprobs],
        prompt_logprobs=None if prompt is None else pb.PromptLogprobs(positions=[_maybe(each) for each in prompt]),
        finish=None if event.finish is None else event.finish.value,
        message=event.message,
        usage=None if event.usage is None else pack_usage(event.usage),
    )


def _with_rest(event: TokenEvent, rest: pb.EventRest) -> TokenEvent:
    prompt = None
    if rest.HasField("prompt_logprobs"):
        prompt = tuple(
            _unpack_logprobs(each.logprobs) if each.HasField("logprobs") else None
            for each in rest.prompt_logprobs.positions
        )
    return event._replace(
        logprobs=tuple(_unpack_logprobs(each) for each in rest.logprobs),
        prompt_logprobs=prompt,
        finish=FinishReason(rest.finish) if rest.HasField("finish") else None,
        message=rest.message if rest.HasField("message") else None,
        usage=_unpack_usage(rest.usage) if rest.HasField("usage") else None,
    )


def _maybe(logprobs: TokenLogprobs | None) -> pb.MaybeLogprobs:
    return pb.MaybeLogprobs(logprobs=None if logprobs is None else _pack_logprobs(logprobs))


def _pack_logprobs(logprobs: TokenLogprobs) -> pb.TokenLogprobs:
    return pb.TokenLogprobs(
        token_id=logprobs.token_id,
        logprob=logprobs.logprob,
        top_ids=logprobs.top_ids,
        top_logprobs=logprobs.top_logprobs,
    )


def _unpack_logprobs(packed: pb.TokenLogprobs) -> TokenLogprobs:
    return TokenLogprobs(packed.token_id, packed.logprob, tuple(packed.top_ids), tuple(packed.top_logprobs))


def pack_usage(usage: Usage) -> pb.Usage:
    """What a reply cost."""
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        qoe=usage.qoe,
        waited_s=usage.waited_s,
        preemptions=usage.preemptions,
    )


def _unpack_usage(packed: pb.Usage) -> Usage:
    return Usage(
        packed.prompt_tokens,
        packed.completion_tokens,
        packed.cached_tokens,
        packed.qoe if packed.HasField("qoe") else None,
        packed.waited_s if packed.HasField("waited_s") else None,
        packed.preemptions,
    )
