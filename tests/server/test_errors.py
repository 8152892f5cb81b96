"""Error objects."""

from __future__ import annotations

import json

import pytest

from andes_jax.request import Refusal
from server.errors import ApiError, internal_error, quoted, shutting_down


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApiError("x"), "invalid_request_error"),
        (ApiError("x", status=404), "invalid_request_error"),
        (ApiError("x", status=500), "api_error"),
        (internal_error(), "api_error"),
        (shutting_down(), "overloaded_error"),
    ],
)
def test_objects_have_the_four_members(error, kind):
    shown = json.loads(error.body())["error"]
    assert set(shown) == {"message", "type", "param", "code"} and shown["type"] == kind
    response = error.response()
    assert response.status_code == error.status and response.body == error.body()
    assert ("retry-after" in response.headers) == (error.status == 503)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("context_length_exceeded", 400),
        ("engine_overloaded", 503),
        ("shutting_down", 503),
        ("engine_failed", 503),
        ("something_new", 400),
    ],
)
def test_refusals_of_the_engine(code, status):
    error = ApiError.from_refusal(Refusal("why", code, "prompt"))
    assert (error.status, error.code, error.param, error.message) == (status, code, "prompt", "why")


@pytest.mark.parametrize("text", ["x" * 10_000, "a\nb\x00\x1b[31m", "\u202eabc", "'\"\\"])
def test_quotes_are_short_and_printable(text):
    shown = quoted(text)
    assert len(shown) <= 70 and shown.isprintable()
