"""Every sampling option on the real model, all at once: none compiles anything after ready, and each does its work."""

from __future__ import annotations

import itertools
import math

import pytest

from andes_jax.request import FinishReason, Request, SamplingParams
from tests.end_to_end.engines import build, golden, greedy, run

PROMPT = tuple(golden()["cases"][0]["prompt_ids"])
OPTIONS: dict[str, dict] = {
    "greedy": dict(temperature=0.0),
    "temperature": dict(temperature=1.3, seed=3),
    "top_k": dict(top_k=5, seed=4),
    "large top_k": dict(top_k=3000, seed=4),
    "top_p": dict(top_p=0.8, seed=5),
    "min_p": dict(min_p=0.2, seed=6),
    "penalties": dict(presence_penalty=1.0, frequency_penalty=0.5, repetition_penalty=1.2, temperature=0.0),
    "bias": dict(logit_bias=((198, 5.0), (28, -100.0)), temperature=0.0),
    "logprobs": dict(top_logprobs=20, temperature=0.0),
    "min_tokens": dict(min_tokens=8, stop_ids=(2,), temperature=0.0),
    "prompt logprobs": dict(prompt_logprobs=True, top_logprobs=3, temperature=0.0),
    "everything": dict(temperature=0.9, top_k=40, top_p=0.9, min_p=0.01, presence_penalty=0.3, seed=2**62,
                       logit_bias=((5, 1.0),), top_logprobs=2, min_tokens=3, stop_ids=(2,)),
}  # fmt: skip


@pytest.fixture(scope="module")
def built():
    engine = build(engine__max_sequences=4, model__max_model_len=512)
    yield engine
    engine.engine.stop(timeout_s=5)


def _request(name: str, options: dict, tokens: int = 12) -> Request:
    return Request(name, PROMPT, SamplingParams(max_tokens=tokens, **options))


def test_mixed_traffic_compiles_nothing(built):
    requests = [_request(name, options) for name, options in OPTIONS.items()]
    requests += [greedy(f"length {size}", PROMPT[:size], 3) for size in (1, 2, 15, 16, 17, len(PROMPT))]
    replies = run(built, requests)
    assert all(reply.finish in (FinishReason.LENGTH, FinishReason.STOP) for reply in replies)
    assert built.compiles_after_ready() == 0


def test_the_same_options_give_the_same_reply_in_another_company(built):
    for name, options in OPTIONS.items():
        (alone,) = run(built, [_request(name, options)])
        others = [greedy(f"{index}", PROMPT[index:], 9) for index in range(3)]
        (among, *_) = run(built, [_request(name, options), *others])
        assert alone.ids == among.ids, name


def test_biased_and_penalised_tokens(built):
    likeliest = golden()["cases"][0]["output_ids"][0]
    (banned,) = run(built, [_request("ban", dict(temperature=0.0, logit_bias=((likeliest, -100.0),)))])
    assert banned.ids[0] != likeliest
    (plain,) = run(built, [_request("plain", dict(temperature=0.0), 64)])
    (varied,) = run(built, [_request("varied", dict(temperature=0.0, frequency_penalty=2.0), 64)])
    assert len(set(varied.ids)) > len(set(plain.ids))


def test_logprobs_are_those_of_a_distribution(built):
    (reply,) = run(built, [_request("logprobs", dict(temperature=0.0, top_logprobs=20))])
    assert [entry.token_id for entry in reply.logprobs] == reply.ids
    for entry in reply.logprobs:
        assert entry.token_id == entry.top_ids[0] and entry.logprob == pytest.approx(entry.top_logprobs[0], abs=1e-5)
        assert all(one >= two for one, two in itertools.pairwise(entry.top_logprobs))
        assert sum(math.exp(value) for value in entry.top_logprobs) <= 1.0 + 1e-5


def test_prompt_logprobs_agree_with_generating_the_same_tokens(built):
    (generated,) = run(built, [_request("generate", dict(temperature=0.0, top_logprobs=0))])
    whole = PROMPT + tuple(generated.ids)
    (scored,) = run(built, [Request("score", whole, SamplingParams(0, top_logprobs=0, prompt_logprobs=True))])
    assert scored.prompt_logprobs is not None and len(scored.prompt_logprobs) == len(whole)
    assert scored.prompt_logprobs[0] is None
    tail = [entry.logprob for entry in scored.prompt_logprobs[-len(generated.ids) :] if entry is not None]
    assert tail == pytest.approx([entry.logprob for entry in generated.logprobs], abs=1e-3)
    assert built.compiles_after_ready() == 0
