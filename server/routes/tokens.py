"""POST /tokenize and /detokenize."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from server.errors import ApiError
from server.schemas.tokens import DetokenizeBody, TokenizeBody
from server.services import Services


class TokenRoutes:
    """The served model's tokenizer."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def tokenize(self, request: Request) -> Response:
        """Tokens of a text or a conversation: {tokens, count, max_model_len}."""
        body = TokenizeBody.parse(await self._services.bodies.read_json_object(request.scope, request.receive))
        admission = self._services.admission
        admission.check_model(body.model)
        ids = await admission.in_thread(lambda: self._ids(body))
        limit = self._services.context.context_length
        return _json({"tokens": ids, "count": len(ids), "max_model_len": limit})

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
        work = self._services.admission.in_thread
        text = await work(lambda: tokenizer.decode(body.tokens, skip_special=body.skip_special_tokens))
        return _json({"prompt": text, "content": text})


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
