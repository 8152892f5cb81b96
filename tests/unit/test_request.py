"""andes_jax.request"""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from andes_jax.request import Refusal, Request, SamplingParams, Tier

PLAIN = SamplingParams(max_tokens=1)


@pytest.mark.parametrize(
    ("change", "penalised"),
    [
        ({}, False),
        ({"presence_penalty": 0.1}, True),
        ({"frequency_penalty": -0.1}, True),
        ({"repetition_penalty": 1.1}, True),
        ({"logit_bias": ((1, 2.0),), "temperature": 0.0}, False),
    ],
)
def test_only_penalties_need_counts_of_earlier_tokens(change, penalised):
    assert replace(PLAIN, **change).penalised is penalised


def test_tiers_sort_by_urgency():
    assert sorted([Tier.BATCH, Tier.REALTIME, Tier.STREAMING]) == [Tier.REALTIME, Tier.STREAMING, Tier.BATCH]


def test_a_request_cannot_be_changed():
    request = Request("a", (1, 2), PLAIN)
    with pytest.raises(FrozenInstanceError):
        request.id = "b"  # type: ignore[misc]


def test_a_refusal_is_raised_and_says_why():
    with pytest.raises(Refusal) as caught:
        raise Refusal("the prompt is too long", "context_length_exceeded", "messages")
    assert str(caught.value) == "the prompt is too long"
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


def test_requests_can_cross_processes():
    request = Request("a", (1, 2), replace(PLAIN, stop_ids=(3,)), Tier.BATCH, stop=("\n",))
    assert pickle.loads(pickle.dumps(request)) == request
