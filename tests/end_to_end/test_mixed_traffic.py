"""Everything that can be asked for, all at once, from a server that users start: nothing is compiled after ready."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import httpx
import pytest

from tests.end_to_end.replies import CHAT, COMPLETIONS, GREEDY, Replies, assert_golden, body_of, expected, read_events
from tests.end_to_end.server_process import assert_nothing_held, metrics, wait_for

pytestmark = pytest.mark.timeout(200)
OPTIONS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.3, "seed": 3},
    {"top_k": 5, "seed": 2**63 - 1},
    {"top_k": 3000},
    {"top_p": 0.8, "seed": -4},
    {"min_p": 0.2},
    {"presence_penalty": 1.0, "frequency_penalty": 0.5, "repetition_penalty": 1.2},
    {"presence_penalty": -2.0, "frequency_penalty": -2.0},
    {"logit_bias": {"198": 5, "28": -100}},
    {"stop": ["the", "的", "\n\n"]},
    {"stop_token_ids": [28, 30], "min_tokens": 4},
    {"ignore_eos": True, "skip_special_tokens": False},
    {"n": 3, "temperature": 0.7},
    {"service_tier": "flex"},
    {"service_tier": "priority", "top_p": 0.5, "top_k": 40, "min_p": 0.01, "presence_penalty": 0.3, "min_tokens": 3},
]
CHATS = [{"logprobs": True, "top_logprobs": 20}, {"max_completion_tokens": 7, "max_tokens": 7}]
TEXTS = [{"logprobs": 5}, {"echo": True, "logprobs": 0}, {"echo": True, "logprobs": 3, "max_tokens": 0}]
LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 600]


def calls() -> list[tuple[str, dict[str, Any]]]:
    hello = {"messages": [{"role": "user", "content": "你好 🙂, tell me something."}], "max_tokens": 8}
    prompt = {"prompt": "The printing press 印刷机 was", "max_tokens": 8}
    made: list[tuple[str, dict[str, Any]]] = []
    for number, options in enumerate(OPTIONS):
        stream = {"stream": number % 2 == 0}
        made += [(CHAT, {**hello, **options, **stream}), (COMPLETIONS, {**prompt, **options, **stream})]
    made += [(CHAT, {**hello, **options}) for options in CHATS]
    made += [(COMPLETIONS, {**prompt, **options}) for options in TEXTS]
    made += [(COMPLETIONS, {"prompt": [count + 7] * count, "max_tokens": 3, **GREEDY}) for count in LENGTHS]
    made += [(COMPLETIONS, {"prompt": [[9] * count, [9] * (count + 1)], "max_tokens": 2}) for count in (3, 40)]
    return made


async def test_mixed_traffic_compiles_nothing(server):
    assert_nothing_held(server.url)
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=150) as h1,
        httpx.AsyncClient(base_url=server.url, timeout=150, http1=False, http2=True) as h2,
    ):

        async def one(number: int, path: str, body: dict[str, Any]) -> None:
            answer = await (h1, h2)[number % 2].post(path, json=body)
            assert answer.status_code == 200, (body, answer.text)
            replies = Replies(done=True)
            if body.get("stream"):
                replies = read_events(answer.text.splitlines())
            else:
                replies.add(answer.json())
            assert replies.done and replies.error is None, body
            assert {finish for reply in replies.choices.values() for finish in reply.finishes} <= {"stop", "length"}
            assert all(len(reply.finishes) == 1 for reply in replies.choices.values())

        async def leave(number: int) -> None:
            body = {"prompt": [number + 50] * 400, "stream": True, "max_tokens": 100}
            async with (h1, h2)[number % 2].stream("POST", COMPLETIONS, json=body) as answer:
                await anext(answer.aiter_lines())

        await asyncio.gather(
            *(one(number, path, body) for number, (path, body) in enumerate(calls())), *map(leave, range(4))
        )
    assert_nothing_held(server.url)
    values = metrics(server.url)
    assert values["andes_engine_compiles_after_ready_total"] == 0
    assert values["andes_engine_step_failures_total"] == 0
    assert_golden(server.url)


def curl(url: str, body: str, *flags: str) -> list[str]:
    return ["curl", "-sSN", "--max-time", "100", *flags, "-H", "content-type: application/json", "-d", body, url]


@pytest.mark.parametrize(("flag", "version"), [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")])
def test_curl_streams(server, cases, flag, version):
    case = cases["chinese-hello"]
    path, body = body_of(case, stream=True)
    command = curl(server.url + path, json.dumps(body), flag, "-w", "version %{http_version}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
    *lines, last = done.stdout.splitlines()
    replies = read_events(lines)
    assert (replies.text, replies.finish, replies.done) == (expected(case), "length", True)
    assert last == f"version {version}"


def test_clients_that_are_killed(server):
    body = json.dumps({"prompt": "Once upon a time", "stream": True, "max_tokens": 900, "ignore_eos": True})
    flags = ("--http1.1", "--http2-prior-knowledge")
    clients = [
        subprocess.Popen(curl(server.url + COMPLETIONS, body, flags[number % 2]), stdout=subprocess.PIPE)
        for number in range(12)
    ]
    try:
        assert wait_for(lambda: metrics(server.url)["andes_engine_slots_free"] == 0, 30, every_s=0.05)
    finally:
        for client in clients:
            client.kill()
            client.communicate()
    assert_nothing_held(server.url)
