"""What all bodies have in common."""

from __future__ import annotations

from typing import ClassVar

import pytest
from pydantic import BaseModel

from server.errors import ApiError
from server.schemas.base import Body
from server.schemas.chat import ChatBody
from server.schemas.completions import CompletionBody
from server.schemas.tokens import DetokenizeBody


class Inner(Body):
    size: int


class Outer(Body):
    name: str
    inner: list[Inner] = []
    ignored: ClassVar[frozenset[str]] = frozenset({"harmless"})
    refused: ClassVar[dict[str, str]] = {"later": "not yet"}


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "name", "missing_required_parameter"),
        ({"name": None}, "name", "missing_required_parameter"),
        ({"name": 3}, "name", "invalid_value"),
        ({"name": "x", "inner": [{"size": 1}, {"size": True}]}, "inner[1].size", "invalid_value"),
        ({"name": "x", "inner": [{"size": 1, "odd": 1}]}, "inner[0].odd", "unknown_parameter"),
        ({"name": "x", "later": 1}, "later", "unsupported_parameter"),
    ],
)
def test_faults_are_located(body, param, code):
    with pytest.raises(ApiError) as raised:
        Outer.parse(body)
    assert (raised.value.status, raised.value.param, raised.value.code) == (400, param, code)


@pytest.mark.parametrize(
    ("body_class", "body", "message"),
    [
        (ChatBody, {"messages": []}, "Invalid value for 'messages': must have at least 1 item."),
        (
            ChatBody,
            {"messages": [{"role": "user", "content": "x"}], "stop_token_ids": [1] * 17},
            "Invalid value for 'stop_token_ids': must have at most 16 items, not 17.",
        ),
        (DetokenizeBody, {"tokens": "abc"}, "Invalid value for 'tokens': must be an array."),
        (ChatBody, {"messages": "hi"}, "Invalid value for 'messages': must be an array."),
        (Outer, {"name": "x", "inner": [3]}, "Invalid value for 'inner[0]': must be an object."),
    ],
)
def test_messages_are_plain(body_class, body, message):
    with pytest.raises(ApiError) as raised:
        body_class.parse(body)
    assert raised.value.message == message


def test_ignored_names_and_nulls_change_nothing():
    assert Outer.parse({"name": "x", "harmless": object(), "later": None}) == Outer(name="x")


@pytest.mark.parametrize("body_class", [ChatBody, CompletionBody])
def test_no_validator_hides_an_inherited_one(body_class: type[BaseModel]):
    """A validator of the same name replaces the base's, which then silently validates nothing."""
    own = vars(body_class)["__pydantic_decorators__"]
    for base in body_class.__mro__[1:]:
        inherited = vars(base).get("__pydantic_decorators__")
        for kind in ("field_validators", "model_validators") if inherited else ():
            for name, decorator in getattr(inherited, kind).items():
                assert getattr(own, kind)[name].info == decorator.info, name
