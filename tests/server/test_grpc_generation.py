"""andes.v1.Generation beside HTTP: replies, status, deadlines, cancellation, health, reflection, keys and TLS."""

from __future__ import annotations

from pathlib import Path

import grpc
import httpx
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.protocol.andes_pb2_grpc import GenerationStub
from server.errors import ApiError
from server.grpc_generation import body_of
from tests.server.parts import MODEL, says
from tests.server.waiting import assert_idle, wait_for

ENDLESS = pb.GenerateRequest(text="hi", max_tokens=1000)


def address(server) -> str:
    assert wait_for(lambda: len(server.serving._urls) > len(server.urls))
    return server.serving._urls[-1].partition("://")[2]


@pytest.fixture
def serve(start):
    """serve(script, **settings) is a server with gRPC and a channel to it."""
    channels = []

    def make(*arguments, **keywords):
        server = start(*arguments, grpc_port=0, **keywords)
        channels.append(grpc.insecure_channel(address(server)))
        return server, channels[-1]

    yield make
    for channel in channels:
        channel.close()


def status_of(call) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError) as raised:
        list(call)
    error = raised.value
    return error.code(), error.details(), dict(error.trailing_metadata())


@pytest.mark.parametrize(
    "given",
    [
        {"text": "hi"},
        {"token_ids": pb.TokenIds(ids=[1, 2])},
        {"conversation": pb.Conversation(messages=[pb.ChatMessage(role="user", content="hi")])},
    ],
)
def test_a_reply_comes_with_its_id_first_and_its_finish_last(serve, given):
    server, channel = serve(says("Grüße."))
    replies = list(GenerationStub(channel).Generate(pb.GenerateRequest(**given), timeout=10))
    assert replies[0].id.startswith("gen-") and not replies[0].text and {each.id for each in replies} == {replies[0].id}
    assert "".join(each.text for each in replies) == "Grüße."
    assert [token for each in replies for token in each.token_ids] == [*"Grüße.".encode(), 256]
    assert [each.finish_reason for each in replies if each.HasField("finish_reason")] == ["stop"]
    assert replies[-1].usage.completion_tokens == len("Grüße.".encode()) + 1
    assert_idle(server)


def test_parameters_reach_the_engine(serve):
    server, channel = serve(says("abcXdef"))
    asked = pb.GenerateRequest(
        text="hi", model=MODEL, max_tokens=20, temperature=0.5, top_k=3, seed=7, stop=["X"], stop_token_ids=[5],
        service_tier="flex", expected_ttft_ms=500, ignore_eos=False, min_tokens=1, top_p=0.9, min_p=0.1,
    )  # fmt: skip
    assert "".join(each.text for each in GenerationStub(channel).Generate(asked, timeout=10)) == "abc"
    [request] = server.engine.submitted
    sampling = request.sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.top_k, sampling.seed) == (20, 0.5, 3, 7)
    assert (sampling.top_p, sampling.min_p, sampling.min_tokens, sampling.stop_ids) == (0.9, 0.1, 1, (256, 5))
    assert request.tier.name == "BATCH" and request.stop == ("X",) and request.qoe.first_token_s == 0.5


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (pb.GenerateRequest(), grpc.StatusCode.INVALID_ARGUMENT, "missing_required_parameter"),
        (pb.GenerateRequest(text="hi", temperature=9), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value"),
        (pb.GenerateRequest(text="hi" * 9999), grpc.StatusCode.INVALID_ARGUMENT, "context_length_exceeded"),
        (pb.GenerateRequest(text="hi", model="other"), grpc.StatusCode.NOT_FOUND, "model_not_found"),
    ],
)
def test_faults_have_a_status_and_a_code(serve, request_, status, code):
    server, channel = serve()
    got, _, trailers = status_of(GenerationStub(channel).Generate(request_, timeout=10))
    assert (got, trailers["andes-code"]) == (status, code)
    assert_idle(server)


def test_an_overloaded_engine_refuses(serve):
    _, channel = serve(max_waiting=0)
    status, words, _ = status_of(GenerationStub(channel).Generate(ENDLESS, timeout=10))
    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED and "room for 0" in words


def test_a_deadline_ends_the_request_in_the_engine(serve):
    server, channel = serve(gap_s=0.01)
    status, *_ = status_of(GenerationStub(channel).Generate(ENDLESS, timeout=0.3))
    assert status is grpc.StatusCode.DEADLINE_EXCEEDED
    assert wait_for(lambda: server.engine.cancelled == [server.engine.submitted[0].id])
    assert_idle(server)


def test_a_client_that_cancels_or_leaves_ends_the_request_in_the_engine(serve):
    server, channel = serve(gap_s=0.01)
    call = GenerationStub(channel).Generate(ENDLESS)
    next(call)
    call.cancel()
    assert wait_for(lambda: len(server.engine.cancelled) == 1)
    with grpc.insecure_channel(address(server)) as other:
        next(GenerationStub(other).Generate(ENDLESS))
    assert wait_for(lambda: len(server.engine.cancelled) == 2)
    assert_idle(server)


def test_a_reply_can_be_cancelled_by_its_id(serve):
    server, channel = serve(gap_s=0.01)
    stub = GenerationStub(channel)
    assert not stub.Cancel(pb.CancelRequest(id="gen-unknown")).found
    call = stub.Generate(ENDLESS, timeout=10)
    assert stub.Cancel(pb.CancelRequest(id=next(call).id)).found
    assert status_of(call)[0] is grpc.StatusCode.CANCELLED
    assert_idle(server)


def test_stats_are_the_engines(serve):
    _, channel = serve(says("abc"))
    stub = GenerationStub(channel)
    list(stub.Generate(pb.GenerateRequest(text="hi"), timeout=10))
    stats = stub.Stats(pb.StatsRequest())
    assert (stats.generated_tokens, stats.state, stats.running.realtime) == (4, "ready", 0)


def test_health_and_reflection(serve):
    _, channel = serve()
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "andes.v1.Generation"):
        status = health.Check(health_pb2.HealthCheckRequest(service=service)).status
        assert status == health_pb2.HealthCheckResponse.SERVING
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    [answer] = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(asked)
    named = {each.name for each in answer.list_services_response.service}
    assert {"andes.v1.Generation", "grpc.health.v1.Health"} <= named


def test_with_keys_everything_but_health_needs_one(serve):
    _, channel = serve(says("ok"), api_keys=("right",))
    stub = GenerationStub(channel)
    for key in (None, "Bearer wrong"):
        metadata = [] if key is None else [("authorization", key)]
        status, *_ = status_of(stub.Generate(ENDLESS, metadata=metadata, timeout=10))
        assert status is grpc.StatusCode.UNAUTHENTICATED
    assert list(stub.Generate(pb.GenerateRequest(text="hi"), metadata=[("authorization", "Bearer right")], timeout=10))
    assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status


def test_tls_is_that_of_http(start, tmp_path: Path):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(certificate)
    server = start(says("ok"), grpc_port=0, host="localhost", certfile=certificate, keyfile=key)
    where = "localhost:" + address(server).rpartition(":")[2]
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with grpc.secure_channel(where, credentials) as channel:
        replies = GenerationStub(channel).Generate(pb.GenerateRequest(text="hi"), timeout=10)
        assert "".join(each.text for each in replies) == "ok"
    with grpc.insecure_channel(where) as channel:
        status, *_ = status_of(GenerationStub(channel).Generate(pb.GenerateRequest(text="hi"), timeout=10))
        assert status is grpc.StatusCode.UNAVAILABLE


def test_a_drain_lets_replies_end_and_takes_no_new_ones(serve):
    server, channel = serve(gap_s=0.02)
    stub = GenerationStub(channel)
    call = stub.Generate(pb.GenerateRequest(text="hi", max_tokens=40), timeout=10)
    next(call)
    server.signal()
    health = health_pb2_grpc.HealthStub(channel)
    asked = health_pb2.HealthCheckRequest()
    assert wait_for(lambda: health.Check(asked).status == health_pb2.HealthCheckResponse.NOT_SERVING)
    assert status_of(stub.Generate(ENDLESS, timeout=10))[0] is grpc.StatusCode.UNAVAILABLE
    assert [each.finish_reason for each in call][-1] == "length"
    assert server.join() == 0


def test_a_taken_port_is_said_before_anything_is_served(start):
    server = start(grpc_port=0)
    taken = int(address(server).rpartition(":")[2])
    from server.addresses import BindError, bind
    from server.context import ServerSettings

    with pytest.raises(BindError, match=f"{taken}"):
        bind(ServerSettings(port=0, grpc_port=taken))


def test_metrics_count_these_replies_too(serve):
    server, channel = serve(says("ok"))
    list(GenerationStub(channel).Generate(pb.GenerateRequest(text="hi"), timeout=10))
    text = httpx.get(server.url + "/metrics").text
    assert 'andes_requests_finished_total{endpoint="/andes.v1.Generation/Generate",finish_reason="stop"} 1.0' in text


def test_an_empty_call_names_what_it_lacks():
    with pytest.raises(ApiError, match="one of 'text'"):
        body_of(pb.GenerateRequest())
