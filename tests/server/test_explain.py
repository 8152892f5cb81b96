"""Why a request waited, for whoever has its id."""

from __future__ import annotations

import pytest

from tests.server.parts import completion, mk_context, says


@pytest.fixture
def context():
    return mk_context(says("x"), api_keys=("key",))


def path_of(request_id: str) -> str:
    return f"/v1/andes/requests/{request_id}/explain"


async def test_one_request_and_a_whole_call(connect, context):
    client = connect(context, authorization="Bearer key")
    reply = (await client.post("/v1/completions", json=completion(["a", "b"]))).json()
    records = {request.id: {"id": request.id, "events": [{"at": 1.5}]} for request in context.engine.submitted}
    context.engine.explained = records
    for request_id, record in records.items():
        answer = await client.get(path_of(request_id))
        assert answer.json() == record and answer.headers["content-type"] == "application/json"
    whole = (await client.get(path_of(reply["id"]))).json()
    assert whole == {"id": reply["id"], "requests": list(records.values())}


@pytest.mark.parametrize("unknown", ["chatcmpl-1", "chatcmpl-1:0", "%00", "x" * 3000, "a%2Fb"])
async def test_unknown_ids(connect, context, unknown):
    client = connect(context, authorization="Bearer key")
    answer = await client.get(path_of(unknown))
    error = answer.json()["error"]
    assert answer.status_code == 404 and error["type"] == "invalid_request_error"
    assert error["code"] == ("not_found" if "%2F" in unknown else "request_not_found")
    assert len(error["message"]) < 400


async def test_it_needs_a_key(connect, context):
    context.engine.explained = {"a": {"id": "a", "events": []}}
    assert (await connect(context).get(path_of("a"))).status_code == 401
    assert (await connect(context, authorization="Bearer key").get(path_of("a"))).status_code == 200
    assert (await connect(context, authorization="Bearer key").post(path_of("a"))).status_code == 405
