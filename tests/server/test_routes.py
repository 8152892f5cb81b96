"""The router table."""

from __future__ import annotations

from server.routes import routes
from server.services import Services
from tests.server.parts import mk_context


def test_every_route_is_served_once():
    context = mk_context()
    table = routes(Services.of(context))
    context.engine.stop(0)
    assert len({route.path for route in table}) == len(table)
    assert {route.path for route in table if "POST" in (route.methods or ())} == {
        "/v1/chat/completions",
        "/v1/completions",
        "/tokenize",
        "/detokenize",
    }
