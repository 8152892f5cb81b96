"""The routes together: what is unknown, what is allowed, and pages of other origins."""

from __future__ import annotations

import pytest

from server.app import create_app
from tests.server.parts import MODEL, chat, mk_context, says


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v1/", "/v1/chat/completions/", "/health/", "/%00", "/v1/models2", "/é"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_unknown_paths(connect, method, path):
    response = await connect().request(method, path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/health"), ("PUT", "/tokenize")]
)
async def test_other_methods(connect, method, path):
    response = await connect().request(method, path)
    assert response.status_code == 405
    assert response.json()["error"]["code"] == "method_not_allowed"
    assert ("POST" if path != "/health" else "GET") in response.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/metrics", "/v1/models", f"/v1/models/{MODEL}"])
async def test_head_is_get_without_a_body(connect, path):
    assert (await connect().head(path)).status_code == 200


async def test_pages_of_other_origins(connect):
    client = connect(mk_context(says("x"), cors_origins=("http://page.test",), api_keys=("key",)))
    page = {"origin": "http://page.test"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    preflight = await client.options("/v1/chat/completions", headers=page | asked)  # browsers send no key with it
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "http://page.test"
    for name in ("authorization", "content-type"):
        assert name in preflight.headers["access-control-allow-headers"].lower()
    answer = await client.post("/v1/chat/completions", json=chat(), headers=page | {"authorization": "Bearer key"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "http://page.test"
    refused = await client.post("/v1/chat/completions", json=chat(), headers=page)  # the page may read why
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "http://page.test"
    other = await client.options("/v1/chat/completions", headers={"origin": "http://other.test"} | asked)
    assert "access-control-allow-origin" not in other.headers


async def test_no_origin_is_allowed_unless_configured(connect):
    answer = await connect().post("/v1/chat/completions", json=chat(), headers={"origin": "http://page.test"})
    assert "access-control-allow-origin" not in answer.headers


async def test_index(connect):
    index = (await connect().get("/")).json()
    assert index["model"] == MODEL
    context = mk_context()
    assert set(index["endpoints"]) <= {route.path for route in create_app(context).routes}
    context.engine.stop(0)
