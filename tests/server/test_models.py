"""The list of models."""

from __future__ import annotations

import pytest

from tests.server.parts import MODEL, chat, completion


async def test_listing(connect):
    listing = (await connect().get("/v1/models")).json()
    assert listing["object"] == "list"
    [model] = listing["data"]
    assert model["id"] == MODEL and model["object"] == "model" and model["created"] == 1_700_000_000
    assert (await connect().get(f"/v1/models/{MODEL}")).json() == model


@pytest.mark.parametrize("name", ["nope", "fake", "fake/bytes/more", "FAKE/BYTES", "x" * 5000, "<script>", "%0a"])
async def test_other_models_are_404(connect, name):
    client = connect()
    answers = [
        await client.get(f"/v1/models/{name}"),
        await client.post("/v1/chat/completions", json=chat() | {"model": name}),
        await client.post("/v1/chat/completions", json=chat(stream=True) | {"model": name}),
        await client.post("/v1/completions", json=completion() | {"model": name}),
        await client.post("/tokenize", json={"prompt": "x", "model": name}),
        await client.post("/detokenize", json={"tokens": [1], "model": name}),
    ]
    for answer in answers:
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
        assert len(error["message"]) < 500


async def test_no_model_is_the_served_one(connect):
    for absent in ({}, {"model": None}):
        body = {key: value for key, value in chat().items() if key != "model"} | absent
        answer = await connect().post("/v1/chat/completions", json=body)
        assert answer.status_code == 200 and answer.json()["model"] == MODEL
