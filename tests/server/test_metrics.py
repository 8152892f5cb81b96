"""Each end is counted once, and times are those a reader would measure."""

from __future__ import annotations

import pytest

from andes_jax.events import TokenEvent, Usage
from andes_jax.request import FinishReason, Tier
from server.metrics import Metrics
from tests.server.parts import chat, completion, mk_context, says
from tests.server.test_front_end import total


class Silent:
    state = "ready"

    def statistics(self):
        raise AssertionError("only a scrape asks")


def values(metrics: Metrics, name: str) -> dict[str, float]:
    """A histogram's count and sum."""
    samples = [sample for family in getattr(metrics, name).collect() for sample in family.samples]
    return {kind: sum(each.value for each in samples if each.name.endswith(f"_{kind}")) for kind in ("count", "sum")}


def tokens(at_s: float, count: int, finish: FinishReason | None = None) -> TokenEvent:
    return TokenEvent("r", at_s, token_ids=(1,) * count, finish=finish)


def test_times_of_one_reply():
    metrics = Metrics(Silent(), lambda: 0)
    meter = metrics.call("/x", Tier.REALTIME, arrived_s=10.0)
    meter.admitted(10.5)
    meter.event(TokenEvent("r", 11.0))  # half a character is no token
    meter.event(tokens(12.0, 1))
    meter.event(tokens(12.3, 3))  # a chunk of several counts as several
    meter.event(tokens(13.0, 1, FinishReason.STOP))
    assert values(metrics, "admission") == {"count": 1, "sum": 0.5}
    assert values(metrics, "first_token") == {"count": 1, "sum": 2.0}
    assert values(metrics, "inter_token") == pytest.approx({"count": 4, "sum": 1.0})
    assert values(metrics, "per_token") == pytest.approx({"count": 1, "sum": 0.25})
    assert values(metrics, "end_to_end") == {"count": 1, "sum": 3.0}


@pytest.mark.parametrize("reason", list(FinishReason))
def test_each_reason_has_its_count(reason):
    metrics = Metrics(Silent(), lambda: 0)
    meter = metrics.call("/x", Tier.BATCH, 0.0)
    meter.started()
    meter.event(tokens(1.0, 1, reason))
    sample = metrics.registry.get_sample_value
    assert sample("andes_requests_finished_total", {"endpoint": "/x", "finish_reason": reason.value}) == 1


async def test_started_is_the_sum_of_all_ends(connect):
    context = mk_context(says("hello"), max_waiting=20)
    client = connect(context)
    paths = {"/v1/chat/completions": chat, "/v1/completions": completion}
    for path, make in paths.items():
        for parameters in ({}, {"n": 3, "stream": True}, {"max_tokens": 2}, {"temperature": 9}, {"model": "no"}):
            await client.post(path, json=make() | parameters)
        context.engine.fails = lambda request: request.sampling.choice == 1
        for stream in (False, True):
            await client.post(path, json=make(n=2, stream=stream))
        context.engine.fails = lambda request: False
        context.engine.max_waiting = 1
        await client.post(path, json=make(n=2))
        context.engine.max_waiting = 20
    text = (await client.get("/metrics")).text
    assert total(text, "andes_requests_started_total") == total(text, "andes_requests_finished_total")
    for reason in ("stop", "length", "failed"):
        assert f'finish_reason="{reason}"' in text
    assert total(text, "andes_requests_refused_total") == 2
    assert total(text, "andes_http_requests_total") == 2 * 8
    assert "andes_streams_open 0.0" in text


def test_two_applications_do_not_share_metrics():
    one, two = Metrics(Silent(), lambda: 0), Metrics(Silent(), lambda: 0)
    one.streams_open.inc()
    assert two.registry.get_sample_value("andes_streams_open") == 0


def test_what_the_engine_says_of_an_ended_reply():
    metrics = Metrics(Silent(), lambda: 0)
    meter = metrics.call("/x", Tier.STREAMING, 0.0)
    meter.event(tokens(1.0, 1, FinishReason.STOP))  # nothing is said: nothing is counted
    meter.event(tokens(1.0, 1, FinishReason.STOP)._replace(usage=Usage(1, 1)))
    assert values(metrics, "qoe") == values(metrics, "queue_wait") == {"count": 0, "sum": 0}
    for qoe in (0.96, 0.991):
        usage = Usage(1, 1, qoe=qoe, waited_s=0.25, preemptions=2)
        meter.event(tokens(1.0, 1, FinishReason.STOP)._replace(usage=usage))
    sample = metrics.registry.get_sample_value
    at_most = {
        limit: sample("andes_qoe_bucket", {"tier": "streaming", "le": limit}) for limit in ("0.95", "0.97", "1.0")
    }
    assert at_most == {"0.95": 0, "0.97": 1, "1.0": 2}
    assert values(metrics, "queue_wait") == {"count": 2, "sum": 0.5}
    assert sample("andes_preemptions_total", {"tier": "streaming"}) == 4
    meter.paused(3)
    assert sample("andes_unread_pauses_total") == 3
