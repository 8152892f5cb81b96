"""Front ends and an engine in processes of their own, with the real model: replies, and what each one's end does."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import grpc
import httpx
import pytest

from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.protocol.andes_pb2_grpc import EngineStub, GenerationStub
from tests.end_to_end.replies import COMPLETIONS, Replies, ask, expected, read_events
from tests.end_to_end.server_process import ROOT, ServerProcess, assert_nothing_held, server_process, wait_for

pytestmark = pytest.mark.timeout(280)
ENDLESS = {"prompt": "Once upon a time", "stream": True, "max_tokens": 1000, "ignore_eos": True}


def free_address() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def engine_process(address: str):
    return server_process("--no-warmup", program=("engine", "--grpc", address))


@contextmanager
def front_end_process(address: str) -> Iterator[tuple[ServerProcess, str]]:
    """A front end, and the address of its own gRPC."""
    own = free_address()
    with server_process("--engine", address, "--grpc-port", own.rpartition(":")[2]) as server:
        yield server, own


def live(link: grpc.Channel) -> int:
    """Requests that the engine runs, or that wait there."""
    figures = EngineStub(link).Statistics(pb.StatisticsRequest(), timeout=10)
    tiers = (figures.running, figures.waiting)
    return sum(each.realtime + each.streaming + each.batch for each in tiers)


def endless(url: str) -> Replies:
    """A reply that ends before its time, or never."""
    with httpx.stream("POST", url + COMPLETIONS, json=ENDLESS, timeout=60) as answer:
        assert answer.status_code == 200
        return read_events(answer.iter_lines())


@dataclass
class Pair:
    """An engine and a front end of it."""

    engine: ServerProcess
    address: str
    url: str  # of the front end
    link: grpc.Channel  # to the engine
    channel: grpc.Channel  # to the front end's own gRPC


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Started once; the last test but one replaces the engine."""
    address = free_address()
    with ExitStack() as stack:
        engine = stack.enter_context(engine_process(address))
        server, own = stack.enter_context(front_end_process(address))
        link = stack.enter_context(grpc.insecure_channel(address))
        channel = stack.enter_context(grpc.insecure_channel(own))
        pair = Pair(engine, address, server.url, link, channel)
        yield pair


def test_text_is_that_of_one_process_byte_for_byte(pair, server, cases):
    for case in list(cases.values())[:2]:  # of one process they are what test_openai_client asks for
        there = ask(pair.url, case)
        assert (there.text, there.finish, there.done) == (expected(case), "length", True)
    here, there = (ask(url, case, temperature=1.0, seed=7) for url in (server.url, pair.url))
    assert here.text == there.text


def test_the_public_service_says_the_same(pair, cases):
    case = next(iter(cases.values()))
    asked = pb.GenerateRequest(
        token_ids=pb.TokenIds(ids=case["prompt_ids"]),
        max_tokens=len(case["output_ids"]),
        temperature=0,
        ignore_eos=True,
    )
    replies = list(GenerationStub(pair.channel).Generate(asked, timeout=60))
    assert "".join(each.text for each in replies) == expected(case)
    assert [token for each in replies for token in each.token_ids] == case["output_ids"]


def test_a_client_that_leaves_ends_its_request_in_the_engine(pair):
    with httpx.stream("POST", pair.url + COMPLETIONS, json=ENDLESS, timeout=60) as answer:
        next(answer.iter_raw())
        assert wait_for(lambda: live(pair.link) == 1)
    assert wait_for(lambda: live(pair.link) == 0)


def test_a_deadline_ends_its_request_in_the_engine(pair):
    call = GenerationStub(pair.channel).Generate(
        pb.GenerateRequest(text="hi", max_tokens=1000, ignore_eos=True), timeout=1
    )
    next(call)
    assert wait_for(lambda: live(pair.link) == 1)
    with pytest.raises(grpc.RpcError) as raised:
        list(call)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert wait_for(lambda: live(pair.link) == 0)


def test_another_model_is_refused_in_words(pair):
    command = [sys.executable, "-m", "andes_jax.cli", "serve", "--port", "0", "--engine", pair.address]
    done = subprocess.run([*command, "--model-name", "other"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "has model 'SmolLM2-135M-Instruct', but this front end has 'other'" in done.stderr.splitlines()[-1]


def test_a_killed_front_end_leaves_nothing_in_the_engine(pair):
    with front_end_process(pair.address) as (second, _), ThreadPoolExecutor(3) as threads:
        streams = [threads.submit(endless, second.url) for _ in range(3)]
        assert wait_for(lambda: live(pair.link) == 3)
        second.process.send_signal(signal.SIGKILL)
        assert wait_for(lambda: live(pair.link) == 0)
        for stream in streams:
            assert isinstance(stream.exception(10), httpx.TransportError)
    assert_nothing_held(pair.url)


def test_a_killed_engine_ends_each_stream_once_and_is_found_again(pair, cases):
    with ThreadPoolExecutor(3) as threads:
        streams = [threads.submit(endless, pair.url) for _ in range(3)]
        assert wait_for(lambda: live(pair.link) == 3)
        pair.engine.process.send_signal(signal.SIGKILL)
        for stream in streams:
            reply = stream.result(20)
            assert reply.done and reply.error is not None and reply.error["code"] == "generation_failed"
            assert reply.error["message"] == "the engine is gone"
    refused = httpx.post(pair.url + COMPLETIONS, json={"prompt": "hi"})
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "engine_failed"
    assert httpx.get(pair.url + "/ready").status_code == 503
    assert 'andes_engine_state{state="failed"} 1.0' in httpx.get(pair.url + "/metrics").text
    with engine_process(pair.address) as again:
        assert wait_for(lambda: httpx.get(pair.url + "/ready").status_code == 200)
        case = next(iter(cases.values()))
        assert ask(pair.url, case).text == expected(case)
        assert_nothing_held(pair.url)
        again.process.send_signal(signal.SIGTERM)
        assert again.wait_end(20) == 0
    assert wait_for(lambda: httpx.get(pair.url + "/ready").status_code == 503)
