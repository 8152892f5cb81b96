"""What goes over the wire comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.events import TokenEvent, TokenLogprobs, Usage
from andes_jax.remote.codec import pack_refusal, pack_request, pack_step, unpack_refusal, unpack_request, unpack_step
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.request import FinishReason, QoeTarget, Refusal, Request, SamplingParams, Tier

texts = st.text(st.characters(codec="utf-8"), max_size=20)
token_ids = st.integers(0, 2**20)
counts = st.integers(0, 2**31 - 1)
numbers = st.floats(allow_nan=False)
samplings = st.builds(
    SamplingParams,
    max_tokens=counts,
    temperature=numbers,
    top_k=counts,
    top_p=numbers,
    min_p=numbers,
    presence_penalty=numbers,
    frequency_penalty=numbers,
    repetition_penalty=numbers,
    logit_bias=st.lists(st.tuples(token_ids, numbers), max_size=3).map(tuple),
    seed=st.integers(0, 2**63 - 1),
    choice=counts,
    stop_ids=st.lists(token_ids, max_size=3).map(tuple),
    min_tokens=counts,
    top_logprobs=st.none() | st.integers(0, 20),
    prompt_logprobs=st.booleans(),
)
requests = st.builds(
    Request,
    id=texts,
    prompt_ids=st.lists(token_ids, max_size=5).map(tuple),
    sampling=samplings,
    tier=st.sampled_from(Tier),
    qoe=st.none() | st.builds(QoeTarget, numbers, numbers),
    arrived_s=numbers,
    stop=st.lists(texts, max_size=2).map(tuple),
    session=st.none() | texts,
    skip_special_tokens=st.booleans(),
)
logprobs = st.builds(
    TokenLogprobs,
    token_ids,
    numbers,
    st.lists(token_ids, max_size=2).map(tuple),
    st.lists(numbers, max_size=2).map(tuple),
)
usages = st.builds(Usage, counts, counts, counts, st.none() | numbers, st.none() | numbers, counts)
events = st.builds(
    TokenEvent,
    request_id=st.sampled_from("abc"),
    emitted_s=st.sampled_from([1.0, 2.5]),
    text=texts,
    token_ids=st.lists(token_ids, max_size=3).map(tuple),
    logprobs=st.lists(logprobs, max_size=2).map(tuple),
    prompt_logprobs=st.none() | st.lists(st.none() | logprobs, max_size=3).map(tuple),
    finish=st.none() | st.sampled_from(FinishReason),
    message=st.none() | texts,
    usage=st.none() | usages,
)
HANDLES = {"a": 1, "b": 2, "c": 2**40}
IDS = {handle: request_id for request_id, handle in HANDLES.items()}


@given(requests, st.integers(0, 2**64 - 1))
def test_requests(request, handle):
    sent = pb.Request.FromString(pack_request(request, handle).SerializeToString())
    assert unpack_request(sent) == request and sent.handle == handle


@given(st.lists(events, max_size=5))
def test_events(batch):
    sent = pb.Step.FromString(pack_step(batch, HANDLES.__getitem__).SerializeToString())
    assert unpack_step(sent, IDS) == batch


@given(texts, texts, st.none() | texts)
def test_refusals(message, code, param):
    sent = pb.Refusal.FromString(pack_refusal(Refusal(message, code, param)).SerializeToString())
    back = unpack_refusal(sent)
    assert (back.message, back.code, back.param) == (message, code, param)


def test_events_of_unknown_handles_are_left_out_and_the_others_keep_their_ids():
    batch = [TokenEvent("a", 1.0, "x", (1, 2)), TokenEvent("b", 1.0, "y", (3,)), TokenEvent("c", 1.0, "z", (4, 5))]
    step = pack_step(batch, HANDLES.__getitem__)
    assert unpack_step(step, {1: "a", 2**40: "c"}) == [batch[0], batch[2]]


def test_a_plain_step_is_small():
    batch = [TokenEvent(request_id, 1.0, "word", (1000,)) for request_id in "ab" * 100]
    assert len(pack_step(batch, HANDLES.__getitem__).SerializeToString()) < 11 * len(batch)


@pytest.mark.parametrize(
    "step",
    [
        pb.Step(handles=[1], emitted_s=[1.0], texts=["x"], counts=[2], token_ids=[1]),
        pb.Step(handles=[1], emitted_s=[1.0], texts=[], counts=[0]),
        pb.Step(handles=[1], emitted_s=[1.0, 2.0], texts=["x"], counts=[0]),
        pb.Step(handles=[1], emitted_s=[1.0], texts=["x"], counts=[0], rest=[pb.EventRest(finish="elsewhere")]),
    ],
)
def test_columns_that_do_not_fit_are_refused(step):
    with pytest.raises(ValueError):
        unpack_step(step, IDS)


def test_numbers_that_the_protocol_cannot_hold_are_refused():
    with pytest.raises(ValueError):
        pack_request(Request("a", (-1,), SamplingParams(max_tokens=1)), 1)
