"""Greedy replies of the embedded model equal transformers', however the work is arranged."""

from __future__ import annotations

import dataclasses

import pytest

from tests.end_to_end.engines import build, golden, greedy, run

CASES = golden()["cases"]


@pytest.fixture(scope="module")
def built():
    engine = build(engine__max_sequences=32, model__max_model_len=4096, engine__kv_pool_bytes="1GiB")
    yield engine
    engine.engine.stop(timeout_s=5)


@pytest.fixture(scope="module")
def cramped():
    """Prompts in chunks of 16 tokens, and pages for less than all sequences."""
    engine = build(
        engine__max_sequences=4,
        engine__prefill_chunk=16,
        engine__step_tokens=32,
        model__max_model_len=512,
        engine__page_tokens=16,
        engine__kv_pool_bytes=24 * 16 * 2 * 30 * 3 * 64 * 4,
        engine__prefix_cache=False,
    )
    yield engine
    engine.engine.stop(timeout_s=5)


def test_twenty_prompts_at_once(built):
    replies = run(built, [greedy(case["name"], case["prompt_ids"]) for case in CASES])
    for case, reply in zip(CASES, replies, strict=True):
        assert reply.ids == case["output_ids"], case["name"]
        assert reply.text == built.tokenizer.decode(case["output_ids"])


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: case["name"])
def test_alone(built, case):
    (reply,) = run(built, [greedy("alone", case["prompt_ids"])])
    assert reply.ids == case["output_ids"]


def test_a_long_prompt_and_again_from_the_prefix_cache(built):
    case = golden()["long"]
    assert len(case["prompt_ids"]) > 2000
    (first,) = run(built, [greedy("first", case["prompt_ids"])])
    (second,) = run(built, [greedy("second", case["prompt_ids"])])
    assert first.ids == second.ids == case["output_ids"]
    assert first.usage is not None and first.usage.cached_tokens == 0
    assert second.usage is not None and second.usage.cached_tokens >= 2000 - 64


def test_in_a_batch_of_thirty_two(built):
    requests = [greedy(f"{index}", CASES[index % len(CASES)]["prompt_ids"]) for index in range(32)]
    for index, reply in enumerate(run(built, requests)):
        assert reply.ids == CASES[index % len(CASES)]["output_ids"]


def test_in_chunks_of_sixteen_and_after_preemption(cramped):
    chosen = sorted(CASES, key=lambda case: len(case["prompt_ids"]), reverse=True)[:6]
    before = cramped.engine.statistics().preemptions
    replies = run(cramped, [greedy(case["name"], case["prompt_ids"]) for case in chosen])
    for case, reply in zip(chosen, replies, strict=True):
        assert reply.ids == case["output_ids"], case["name"]
    assert cramped.engine.statistics().preemptions > before, "the pool is meant to be too small"
    statistics = cramped.engine.statistics()
    assert statistics.pages_free + statistics.pages_cached == statistics.pages_total


def test_a_seed_gives_the_same_reply_alone_and_among_others(built):
    drawn = [
        greedy(f"seeded {seed}", CASES[seed]["prompt_ids"], 32, temperature=1.0, top_p=0.95, seed=seed)
        for seed in range(6)
    ]
    others = [greedy(f"other {index}", CASES[index]["prompt_ids"], 40) for index in range(10, 20)]
    together = run(built, drawn + others)[:6]
    for request, reply in zip(drawn, together, strict=True):
        (alone,) = run(built, [dataclasses.replace(request, id="alone")])
        assert alone.ids == reply.ids
    assert len({tuple(reply.ids) for reply in together}) == 6
