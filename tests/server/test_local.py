"""The engine of this process as a server."""

from __future__ import annotations

from andes_jax.jobs.client import HttpClient
from andes_jax.request import Tier
from server.local import engine_http
from tests.server.parts import MODEL, mk_context, says
from tests.unit.jobs.parts import Waits


async def test_calls_reach_the_engine_in_the_batch_tier():
    context = mk_context(says("Yes."))
    try:
        async with engine_http(context) as http:
            client = HttpClient(http, patience=Waits().patience)
            model = await client.model()
            assert (model.name, model.native, model.context_tokens) == (MODEL, True, 2048)
            reply = await client.post("/v1/completions", {"model": MODEL, "prompt": "天?"})
            assert reply.status == 200 and reply.body["choices"][0]["text"] == "Yes."
            assert reply.request_id == reply.body["id"]
            bad = await client.post("/v1/completions", {"model": MODEL, "prompt": 1})
            assert bad.status == 400 and bad.body["error"]["param"] == "prompt"
        assert [request.tier for request in context.engine.submitted] == [Tier.BATCH]
    finally:
        context.engine.stop(0)
