"""Every route needs a key, except the health checks."""

from __future__ import annotations

import pytest

from server.app import create_app
from server.auth import OPEN_PATHS
from tests.server.parts import chat, mk_context, says

KEYS = ("first-key", "clé-日本")


def every_route() -> list[tuple[str, str]]:
    context = mk_context()
    routes = create_app(context).routes
    context.engine.stop(0)
    return [(method, route.path.replace("{model_id:path}", "m")) for route in routes for method in route.methods or ()]


ROUTES = every_route()


def test_the_walk_sees_the_routes():
    assert {"/v1/chat/completions", "/metrics", "/tokenize", "/health"} <= {path for _, path in ROUTES}
    assert {"/health", "/ready"} == OPEN_PATHS


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", "/nowhere"), ("POST", "/health/"), ("GET", "//health")])
async def test_every_route_but_health_checks_wants_a_key(connect, method, path):
    client = connect(mk_context(says("x"), api_keys=KEYS))
    response = await client.request(method, path)
    if path in OPEN_PATHS:
        assert response.status_code == 200
        return
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    if method != "HEAD":
        assert response.json()["error"]["code"] == "invalid_api_key"
    with_key = await client.request(method, path, headers={"authorization": "Bearer first-key"})
    assert with_key.status_code != 401


@pytest.mark.parametrize("key", [*KEYS])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
async def test_any_key_is_taken(connect, key, scheme):
    client = connect(mk_context(says("x"), api_keys=KEYS))
    headers = {"authorization": f"{scheme} {key}".encode()}
    assert (await client.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "value",
    [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "first-key",
        "Basic first-key",
        "Bearer first-key2",
        "Bearer first-ke",
        "",
        "\xff",
    ],
)
async def test_other_credentials_are_refused(connect, value):
    client = connect(mk_context(says("x"), api_keys=KEYS))
    response = await client.get("/v1/models", headers={"authorization": value.encode("latin-1")})
    assert response.status_code == 401
    assert "first-key" not in response.text


async def test_two_credentials_are_refused(connect):
    client = connect(mk_context(says("x"), api_keys=KEYS))
    headers = [("authorization", "Bearer wrong"), ("authorization", "Bearer first-key")]
    assert (await client.get("/v1/models", headers=headers)).status_code == 401


async def test_no_keys_leave_the_server_open(connect):
    assert (await connect(mk_context(says("x"))).post("/v1/chat/completions", json=chat())).status_code == 200


def test_keys_do_not_show_in_the_settings():
    context = mk_context(api_keys=KEYS)
    context.engine.stop(0)
    assert "first-key" not in repr(context.settings)
