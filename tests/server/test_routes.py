"""The router table."""

from __future__ import annotations

from server.app import create_app
from tests.server.parts import mk_context


def test_every_route_is_served_once():
    context = mk_context()
    table = create_app(context).routes
    context.engine.stop(0)
    served = [(method, route.path) for route in table for method in route.methods or ()]
    assert len(set(served)) == len(served)
    assert {path for method, path in served if method == "POST"} == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/files",
        "/v1/batches",
        "/v1/batches/{batch_id}/cancel",
        "/tokenize",
        "/detokenize",
    }
    assert [path for method, path in served if method == "DELETE"] == ["/v1/files/{file_id}"]
