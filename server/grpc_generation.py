"""The service andes.v1.Generation: the same calls as over HTTP, with gRPC's deadlines, cancellation and status."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import grpc

from andes_jax.engine.contract import EngineAway
from andes_jax.remote.codec import pack_usage
from andes_jax.remote.description import pack_statistics
from andes_jax.remote.listener import Listener, ListenSettings
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.remote.protocol import andes_pb2_grpc
from server.admission import Work
from server.errors import ApiError, shutting_down
from server.mailbox import Piece
from server.replies import fault_of
from server.schemas.chat import ChatBody
from server.schemas.completions import CompletionBody
from server.services import Services

SERVICE = "andes.v1.Generation"
ENDPOINT = f"/{SERVICE}/Generate"
_PARAMETERS = (
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "ignore_eos",
    "min_tokens",
    "service_tier",
)
_EXPECTATIONS = ("expected_ttft_ms", "expected_tokens_per_s")
_BY_CODE = {
    "engine_overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "cancelled": grpc.StatusCode.CANCELLED,
}
_BY_STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}


def body_of(request: pb.GenerateRequest) -> ChatBody | CompletionBody:
    """The call as it would come over HTTP, checked in the same way. Raises ApiError (400)."""
    given: dict[str, Any] = {name: getattr(request, name) for name in _PARAMETERS if request.HasField(name)}
    expected = {name: getattr(request, name) for name in _EXPECTATIONS if request.HasField(name)}
    given |= {"stream": True, "stop": list(request.stop) or None, "andes": expected or None}
    given["stop_token_ids"] = list(request.stop_token_ids) or None
    match request.WhichOneof("input"):
        case "text":
            return CompletionBody.parse({**given, "prompt": request.text})
        case "token_ids":
            return CompletionBody.parse({**given, "prompt": list(request.token_ids.ids)})
        case "conversation":
            messages = [_message(each) for each in request.conversation.messages]
            return ChatBody.parse({**given, "messages": messages})
    raise ApiError(
        "Give one of 'text', 'token_ids' and 'conversation'.", code="missing_required_parameter", param="input"
    )


def _message(message: pb.ChatMessage) -> dict[str, Any]:
    shown = {"role": message.role, "content": message.content}
    return {**shown, "name": message.name} if message.HasField("name") else shown


class GenerationService(andes_pb2_grpc.GenerationServicer):
    """Shares everything with the HTTP application whose services it is given, its event loop too."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._works: dict[str, Work] = {}  # being generated, by the reply's id

    async def Generate(self, request: pb.GenerateRequest, context: grpc.aio.ServicerContext) -> None:
        """Stream one reply. Every exit, a deadline's and a cancellation's too, ends its request in the engine."""
        async with self._running(context):
            await self._generate(body_of(request), context)

    async def Cancel(self, request: pb.CancelRequest, context: grpc.aio.ServicerContext) -> pb.CancelReply:
        """End a reply that another call generates."""
        work = self._works.get(request.id)
        if work is None:
            return pb.CancelReply(found=False)
        for each in work.requests:
            self._services.context.engine.cancel(each.id)
        return pb.CancelReply(found=True)

    async def Stats(self, request: pb.StatsRequest, context: grpc.aio.ServicerContext) -> pb.EngineStatistics:
        """The engine's figures."""
        served = self._services.context
        try:
            statistics = await asyncio.to_thread(served.engine.statistics)  # an engine elsewhere is waited for
        except EngineAway as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return pack_statistics(statistics, served.compiles_after_ready(), served.engine.state)

    @asynccontextmanager
    async def _running(self, context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
        """Counts a call among those that a drain waits for, and turns an ApiError into its status."""
        lifecycle = self._services.lifecycle
        task = asyncio.current_task()
        assert task is not None
        lifecycle.begin(task)
        try:
            if lifecycle.draining:
                raise shutting_down()
            yield
        except ApiError as error:
            await _abort(context, error)
        finally:
            lifecycle.end(task)

    async def _generate(self, body: ChatBody | CompletionBody, context: grpc.aio.ServicerContext) -> None:
        services = self._services
        arrived_s = services.context.clock.now()
        reply_id = f"gen-{uuid.uuid4().hex}"
        services.admission.check(body)
        meter = services.metrics.call(ENDPOINT, body.tier, arrived_s)
        services.front_end.check_room(1, meter)
        if isinstance(body, ChatBody):
            work = await services.admission.chat(body, reply_id, arrived_s)
        else:
            work = await services.admission.completion(body, reply_id, arrived_s)
        meter.admitted(services.context.clock.now())
        call = await services.front_end.open(work.requests, meter)
        self._works[reply_id] = work
        try:
            await context.write(pb.GenerateReply(id=reply_id))
            finished = False
            while not finished:
                for piece in await call.take():
                    fault = fault_of(piece, draining=services.lifecycle.draining)
                    if piece.texts or piece.token_ids or fault is None:
                        await context.write(_reply(reply_id, piece, ended=fault is None))
                    if fault is not None:
                        raise fault
                    finished = piece.finish is not None
        finally:
            del self._works[reply_id]
            call.close()


def _reply(reply_id: str, piece: Piece, *, ended: bool) -> pb.GenerateReply:
    reply = pb.GenerateReply(id=reply_id, text=piece.text, token_ids=piece.token_ids)
    if ended and piece.finish is not None:
        reply.finish_reason = piece.finish.value
        if piece.usage is not None:
            reply.usage.CopyFrom(pack_usage(piece.usage))
    return reply


async def _abort(context: grpc.aio.ServicerContext, error: ApiError) -> NoReturn:
    status = _BY_CODE.get(error.code or "") or _BY_STATUS[error.status]
    trailers = [("andes-code", error.code), ("andes-param", error.param)]
    await context.abort(status, error.message, tuple((name, value) for name, value in trailers if value is not None))
    raise AssertionError("abort raises")


async def start_generation(services: Services) -> tuple[Listener, str]:
    """Serve by gRPC what the services of an application serve by HTTP; the address as URL. Raises ListenError."""
    settings = services.context.settings
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    listener = Listener(
        ListenSettings(
            f"{host}:{settings.grpc_port}",
            settings.certfile,
            settings.keyfile,
            settings.api_keys,
            settings.max_body_bytes,
        )
    )
    andes_pb2_grpc.add_GenerationServicer_to_server(GenerationService(services), listener.server)
    return listener, await listener.start([SERVICE])
