"""POST /tokenize and /detokenize."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from server.disconnect import UntilDisconnect
from server.errors import ApiError
from server.schemas.tokens import DetokenizeBody, TokenizeBody
from server.services import Services
from server.work_thread import WorkThread

MOST_WAITING = 32  # calls of both kinds together; more are refused


class TokenRoutes:
    """The served model's tokenizer, in a thread of its own: these calls never keep a generation call waiting."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._thread = WorkThread("token-routes", MOST_WAITING)

    async def tokenize(self, request: Request) -> Response:
        """Tokens of a text or a conversation: {tokens, count, max_model_len}."""
        body = TokenizeBody.parse(await self._services.bodies.read_json_object(request.scope, request.receive))
        admission = self._services.admission
        admission.check_model(body.model)
        limit = self._services.context.context_length

        def answer() -> bytes:
            ids = self._ids(body)
            return orjson.dumps({"tokens": ids, "count": len(ids), "max_model_len": limit})

        return await self._unless_gone(request, answer)

    def _ids(self, body: TokenizeBody) -> tuple[int, ...]:
        admission = self._services.admission
        if body.messages is None:
            text, special = body.prompt if body.prompt is not None else body.content or "", True
            param = "prompt" if body.prompt is not None else "content"
        else:
            render = admission.renderer.whole
            text, special = render(body.messages, add_generation_prompt=body.add_generation_prompt), False
            param = "messages"
        if body.add_special_tokens is not None:
            special = body.add_special_tokens
        admission.check_bytes(text, param)
        return admission.encode(text, add_special=special, param=param)

    async def detokenize(self, request: Request) -> Response:
        """Text of tokens: {prompt, content}, twice the same under the names that peers use."""
        body = DetokenizeBody.parse(await self._services.bodies.read_json_object(request.scope, request.receive))
        self._services.admission.check_model(body.model)
        tokenizer = self._services.context.tokenizer
        if body.tokens and max(body.tokens) >= tokenizer.vocab_size:
            raise ApiError(
                f"Invalid value for 'tokens': token ids must be below {tokenizer.vocab_size}.",
                code="invalid_value",
                param="tokens",
            )

        def answer() -> bytes:
            text = tokenizer.decode(body.tokens, skip_special=body.skip_special_tokens)
            return orjson.dumps({"prompt": text, "content": text})

        return await self._unless_gone(request, answer)

    async def _unless_gone(self, request: Request, answer: Callable[[], bytes]) -> Response:
        """The answer made in the thread; raises ClientDisconnect when nobody waits for it any more."""
        async with UntilDisconnect(request.receive):
            return Response(await self._thread.run(answer), media_type="application/json")
        raise ClientDisconnect
