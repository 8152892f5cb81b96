"""The body of a completions call, and what is particular about its reply."""

from __future__ import annotations

import itertools

import pytest

from tests.server.parts import completion, mk_context, says


@pytest.mark.parametrize(
    "prompt",
    ["", [], [""], [[]], [["x"]], ["x", 1], [1, "x"], [1.5], [True], [-1], [257], [[1], [300]], 3, {}, [[[1]]]],
)
async def test_bad_prompts(connect, prompt):
    context = mk_context(says("x"))
    answer = await connect(context).post("/v1/completions", json=completion(prompt))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "prompt"
    assert context.engine.submitted == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("suffix", "end"),
        ("best_of", 2),
        ("best_of", 0),
        ("echo", 1),
        ("logprobs", -1),
        ("logprobs", 21),
        ("logprobs", True),
        ("messages", []),
        ("max_completion_tokens", 3),
        ("top_logprobs", 3),
    ],
)
async def test_bad_parameters(connect, name, value):
    answer = await connect().post("/v1/completions", json=completion(**{name: value}))
    assert answer.status_code == 400 and answer.json()["error"]["param"] == name


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("ab", [[97, 98]]),
        (["ab", "c"], [[97, 98], [99]]),
        ([97, 98], [[97, 98]]),
        ([[97], [98, 99]], [[97], [98, 99]]),
    ],
)
@pytest.mark.parametrize("n", [1, 3])
async def test_prompts_and_choices(connect, prompt, ids, n):
    context = mk_context(says("!"))
    answer = (await connect(context).post("/v1/completions", json=completion(prompt, n=n, best_of=n, echo=True))).json()
    expected = list(itertools.chain.from_iterable([each] * n for each in ids))
    assert [list(request.prompt_ids) for request in context.engine.submitted] == expected
    assert [request.sampling.choice for request in context.engine.submitted] == [*range(n)] * len(ids)
    assert [choice["text"] for choice in answer["choices"]] == [bytes(each).decode() + "!" for each in expected]
    assert [choice["index"] for choice in answer["choices"]] == [*range(len(expected))]
    prompt_tokens = sum(len(each) for each in ids)  # a prompt counts once, however many choices it has
    assert answer["usage"]["prompt_tokens"] == prompt_tokens
    assert answer["usage"]["completion_tokens"] == 2 * len(expected)
    assert answer["usage"]["total_tokens"] == prompt_tokens + 2 * len(expected)


async def test_too_many_prompts(connect):
    client = connect(mk_context(says("x"), max_prompts=3))
    assert (await client.post("/v1/completions", json=completion(["x"] * 3))).status_code == 200
    answer = await client.post("/v1/completions", json=completion(["x"] * 4))
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "prompt"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("logprobs", [None, 0, 3])
async def test_scoring_a_prompt(connect, stream, logprobs):
    context = mk_context(says("never said"))
    body = completion("aé", echo=True, max_tokens=0, logprobs=logprobs, stream=stream)
    answer = await connect(context).post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    if stream:
        assert '"text":"aé"' in answer.text and "never" not in answer.text
        return
    [choice] = answer.json()["choices"]
    assert choice["text"] == "aé" and choice["finish_reason"] == "length"
    assert context.engine.submitted[0].sampling.prompt_logprobs == (logprobs is not None)
    if logprobs is None:
        assert choice["logprobs"] is None
        return
    lists = choice["logprobs"]
    assert lists["tokens"] == ["a", "bytes:\\xc3", "bytes:\\xa9"]
    assert lists["token_logprobs"][0] is None and all(value <= 0 for value in lists["token_logprobs"][1:])
    assert lists["text_offset"] == [0, 1, 1]
    assert lists["top_logprobs"][0] is None and len(lists["top_logprobs"][1]) == logprobs
