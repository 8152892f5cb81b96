"""What streams weigh, as a function and on one connection."""

from __future__ import annotations

import math

import h2.events
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andes_jax.request import Tier
from andes_jax.scheduling import priority
from server.weights import (
    HORIZON_S,
    NOTABLE,
    URGENCY_BANDS,
    WEIGHT_BANDS,
    StreamWeight,
    asked_urgency,
    need_of,
    push_of,
    urgency_of,
    weight_of,
)
from tests.server.parts import chat, says
from tests.server.raw_h2 import RawH2
from tests.server.waiting import wait_for

CHAT = "/v1/chat/completions"
needs = st.floats(0, 1)
pushes = st.floats(-1, 1)
tiers = st.sampled_from(Tier)


@given(st.floats(-1e6, 1e6) | st.just(math.inf))
def test_need_is_the_scheduler_s(slack_s):
    assert need_of(slack_s) == pytest.approx(float(priority.need_of(np.array(slack_s), HORIZON_S)))


@given(tiers, needs, pushes)
def test_tiers_keep_to_their_bands(tier, need, push):
    low, high = WEIGHT_BANDS[tier]
    assert 1 <= low <= weight_of(tier, need, push) <= high <= 256
    first, last = URGENCY_BANDS[tier]
    assert 0 <= first <= urgency_of(tier, need, push) <= last <= 7


def test_bands_do_not_meet():
    weights = [WEIGHT_BANDS[tier] for tier in sorted(Tier, reverse=True)]
    assert all(one[1] < next_one[0] for one, next_one in zip(weights, weights[1:], strict=False))
    urgencies = [URGENCY_BANDS[tier] for tier in sorted(Tier)]
    assert all(one[1] < next_one[0] for one, next_one in zip(urgencies, urgencies[1:], strict=False))


@given(tiers, needs, needs, pushes, pushes)
def test_need_and_push_never_make_a_stream_lighter(tier, need, more, push, further):
    lesser, greater = (need, push), (max(need, more), max(push, further))
    assert weight_of(tier, *lesser) <= weight_of(tier, *greater)
    assert urgency_of(tier, *lesser) >= urgency_of(tier, *greater)


@pytest.mark.parametrize("tier", Tier)
def test_pushes_reach_both_ends_of_the_band(tier):
    for need in (priority.LEAST_NEED, 0.5, 1.0):
        assert weight_of(tier, need, push_of(0, None)) == weight_of(tier, need, push_of(None, 256))
        assert weight_of(tier, need, push_of(7, None)) == weight_of(tier, need, push_of(None, 1))
        assert weight_of(tier, need, push_of(0, None)) == WEIGHT_BANDS[tier][1]
        assert weight_of(tier, need, push_of(3, None)) == weight_of(tier, need, push_of(None, None))
        assert weight_of(tier, need, push_of(None, 16)) == weight_of(tier, need, 0.0)
        assert weight_of(tier, need, push_of(5, 256)) < weight_of(tier, need, 0.0) or need == priority.LEAST_NEED


@given(st.none() | st.integers(0, 7), st.none() | st.integers(1, 256))
def test_pushes_are_bounded(urgency, weight):
    assert -1 <= push_of(urgency, weight) <= 1


@pytest.mark.parametrize(
    ("values", "urgency"),
    [
        ([], None),
        ([b"u=0"], 0),
        ([b"u=5, i"], 5),
        ([b"i, u=7"], 7),
        ([b"i;x=u, u=2;q=1"], 2),
        ([b"u=1,u=4"], 4),
        ([b"u=1", b"u=6"], 6),
        ([b" \tu=3 "], 3),
        ([b"i"], None),
        ([b"u=8"], None),
        ([b"u=-1"], None),
        ([b"u=10"], None),
        ([b"u=2.0"], None),
        ([b"u"], None),
        ([b"u="], None),
        ([b"U=1"], None),
        ([b"\xff\x00=u,=,;;"], None),
        ([b"u=9, u=2"], 2),
        ([b"," * 300 + b"u=1"], None),
    ],
)
def test_what_a_client_asks_for(values, urgency):
    assert asked_urgency([(b"accept", b"u=1"), *((b"priority", value) for value in values)]) == urgency


@given(st.binary(max_size=400))
def test_no_header_is_too_odd(value):
    assert asked_urgency([(b"priority", value)]) in (None, *range(8))


class Schedule:
    """A transport that notes what it is told."""

    def __init__(self, asked: int | None = None) -> None:
        self.asked = asked
        self.given: list[int] = []
        self.open = True

    def asked_weight(self) -> int | None:
        return self.asked

    def set_weight(self, weight: int) -> bool:
        if self.open:
            self.given.append(weight)
        return self.open


def test_weights_change_by_a_factor_or_not_at_all():
    transport = Schedule()
    weight = StreamWeight(transport, Tier.REALTIME, None)
    for step in range(1000):
        weight.follow(step * HORIZON_S / 1000)
    given = transport.given
    assert given[0] == 256 and 41 <= given[-1] < 41 * NOTABLE * 1.1
    assert all(before >= NOTABLE * after for before, after in zip(given, given[1:], strict=False))
    assert 5 <= len(given) <= 9
    weight.follow(-1.0)
    assert given[-1] == 256


def test_a_client_may_change_its_mind():
    transport = Schedule()
    weight = StreamWeight(transport, Tier.STREAMING, None)
    weight.follow(HORIZON_S / 2)
    transport.asked = 256
    weight.follow(HORIZON_S / 2)
    assert transport.given == [17, 40]
    assert StreamWeight(transport, Tier.STREAMING, 7).header(0.0) == b"u=5, i"


def test_streams_that_are_gone_and_other_transports_weigh_nothing():
    transport = Schedule()
    transport.open = False
    StreamWeight(transport, Tier.BATCH, None).follow(1.0)
    StreamWeight(None, Tier.BATCH, None).follow(1.0)
    assert transport.given == []
    assert StreamWeight(None, Tier.BATCH, None).header(1.0) == b"u=6, i"


SIZE = 8000  # tokens, of some 300 bytes of log-probabilities each
# Readers so far ahead need next to nothing: each stream is near the lower end of its band, unless the client says more.
SHARES = [
    ({}, {}, 1.0),
    ({}, {"body": {"service_tier": "flex"}, "weight": 256}, 43 / 6),
    ({"headers": {"priority": "u=0"}}, {}, 256 / 43),
    ({"headers": {"priority": "u=0, i"}}, {"headers": {"priority": "u=2"}}, 256 / 79),
    ({"weight": 256}, {"weight": 64, "headers": {"priority": "nonsense"}}, 256 / 106),
    ({"body": {"service_tier": "flex"}, "weight": 256}, {"body": {"service_tier": "flex"}}, 6.0),
]


def opened(client: RawH2, body=None, headers=None, weight: int | None = None) -> int:
    """A stream of a long reply, as wide as its connection lets it be."""
    stream_id = client.headers(CHAT, extra=headers)
    if weight is not None:
        client.connection.prioritize(stream_id, weight=weight)
    client.connection.increment_flow_control_window(2**24, stream_id)
    data = orjson.dumps(chat(stream=True, max_tokens=SIZE, logprobs=True, top_logprobs=5, **(body or {})))
    client.connection.send_data(stream_id, data, end_stream=True)
    client.flush()
    return stream_id


def long_replies(start):
    server = start(lambda request: (*(b"x" * SIZE), 256), unread_timeout_s=60)
    server.engine.limits = type(server.engine.limits)(max_model_len=SIZE + 1000)
    server.engine.tokens_per_step = 100
    return server


@pytest.mark.parametrize(("one", "other", "ratio"), SHARES)
def test_shares_of_a_window_follow_the_weights(start, one, other, ratio):
    """Stock Hypercorn sends nothing of the lighter stream while the connection's window is the limit."""
    server = long_replies(start)
    with RawH2(server.port, hungry=False) as client:
        streams = [opened(client, **each) for each in (one, other)]

        def got() -> list[int]:
            return [len(client.data(each)) for each in streams]

        assert client.pump(lambda: sum(got()) >= 65535)
        assert wait_for(lambda: len(server.engine.submitted) == 2 and not server.engine.live, 20)
        begun = got()
        for _ in range(200):
            goal = sum(got()) + 3000
            client.connection.increment_flow_control_window(3000, None)
            client.flush()
            assert client.pump(lambda goal=goal: sum(got()) >= goal)
        heavy, light = (after - before for after, before in zip(got(), begun, strict=True))
    assert heavy / light == pytest.approx(ratio, rel=0.25)


@pytest.mark.parametrize(("one", "other", "ratio"), SHARES[2:3])
def test_shares_of_a_slow_link_follow_the_weights(start, one, other, ratio):
    server = long_replies(start)
    with RawH2(server.port, hungry=False, receive_buffer=4096) as client:
        client.connection.increment_flow_control_window(2**24)
        streams = [opened(client, **each) for each in (one, other)]
        assert wait_for(lambda: len(server.engine.submitted) == 2 and not server.engine.live, 20)
        taken = dict.fromkeys(streams, 0)
        counts = False
        while sum(taken.values()) < 1_500_000:
            client.socket.settimeout(5)
            for event in client.connection.receive_data(client.socket.recv(16_384)):
                if isinstance(event, h2.events.DataReceived):
                    taken[event.stream_id] += len(event.data)
            if not counts and sum(taken.values()) > 200_000:  # what was on its way before both had something to say
                counts, taken = True, dict.fromkeys(streams, 0)
    heavy, light = taken.values()
    assert heavy / light == pytest.approx(ratio, rel=0.25)


@pytest.mark.parametrize(("tier", "value"), [("priority", b"u=0, i"), ("flex", b"u=7, i")])
def test_streams_say_their_urgency(start, tier, value):
    server = start(says("Hello."))
    with RawH2(server.port) as client:
        stream_id = client.post(CHAT, chat(stream=True, service_tier=tier))
        assert client.status(stream_id) == 200
        head = dict(client.of(stream_id, h2.events.ResponseReceived)[0].headers)
        assert head["priority"] == value.decode()
        client.whole(stream_id)
