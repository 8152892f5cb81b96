"""POST /v1/chat/completions and /v1/completions: read, check, admit; then stream or gather."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.admission import Work
from server.disconnect import UntilDisconnect
from server.errors import ApiError
from server.front_end import Call
from server.mailbox import Piece
from server.replies import ReplyHead, UsageSum, fault_of
from server.schemas.chat import ChatBody
from server.schemas.completions import CompletionBody
from server.schemas.sampling import GenerationBody
from server.services import Services
from server.shapes import ChatShape, CompletionShape, Shape
from server.stream import EventEncoder, EventStream
from server.transport import transport_of
from server.unread import UnreadWatch
from server.weights import StreamWeight, asked_urgency


class GenerationEndpoint[B: GenerationBody](ABC):
    """ASGI application of one kind of call. Every exit closes the call, which cancels what still runs."""

    endpoint: str
    id_prefix: str
    body_class: type[B]

    def __init__(self, services: Services) -> None:
        self._services = services

    @abstractmethod
    async def work(self, body: B, call_id: str, arrived_s: float) -> Work:
        """Render and encode what was checked; raises ApiError."""

    @abstractmethod
    def shape(self, body: B, work: Work) -> Shape:
        """How the reply is written."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_s = self._services.context.clock.now()
        body = self.body_class.parse(await self._services.bodies.read_json_object(scope, receive))
        async with UntilDisconnect(receive):
            await self._generate(body, arrived_s, scope, receive, send)

    async def _generate(self, body: B, arrived_s: float, scope: Scope, receive: Receive, send: Send) -> None:
        services = self._services
        call_id = f"{self.id_prefix}-{uuid.uuid4().hex}"
        services.admission.check(body)
        profile = None
        if services.profiler is not None and body.stream:
            profile = services.profiler.open(call_id, body.tier, arrived_s)
        meter = services.metrics.call(self.endpoint, body.tier, arrived_s, profile)
        services.front_end.check_room(body.prompt_count * body.n, meter)
        work = await self.work(body, call_id, arrived_s)
        meter.admitted(services.context.clock.now())
        head = ReplyHead(call_id, services.context.model_id, body.tier_used, services.context.fingerprint)
        shape = self.shape(body, work)
        usage = UsageSum(work)
        transport = transport_of(scope)
        weight = StreamWeight(transport, body.tier, asked_urgency(scope["headers"]))
        call = await services.front_end.open(work.requests, meter)
        try:
            if body.stream:
                encoder = EventEncoder(head, shape, usage, include_usage=body.include_usage)
                watch = UnreadWatch(call, transport, services.context.settings.unread_timeout_s)
                with (
                    services.metrics.streams_open.track_inprogress(),
                    services.pacing.stream(call, transport, weight) as pace,
                ):
                    stream = EventStream(
                        transport, send, self._draining, watch, pace, services.context.clock.now, profile
                    )
                    await stream.run(call, encoder)
            else:
                reply = head.fields(shape.kind)
                reply["choices"] = shape.whole_choices(await self._gather(call, usage))
                reply["usage"] = usage.render()
                weight.follow(0.0)  # the whole reply is due at once
                await Response(orjson.dumps(reply), media_type="application/json")(scope, receive, send)
        finally:
            call.close()

    def _draining(self) -> bool:
        return self._services.lifecycle.draining

    async def _gather(self, call: Call, usage: UsageSum) -> list[list[Piece]]:
        """The pieces of each choice, once all have ended; raises ApiError when one failed."""
        gathered: list[list[Piece]] = [[] for _ in range(call.size)]
        left = call.size
        while left:
            for piece in await call.take():
                fault: ApiError | None = fault_of(piece, draining=self._draining())
                if fault is not None:
                    raise fault
                usage.add(piece)
                gathered[piece.index].append(piece)
                left -= piece.finish is not None
        return gathered


class ChatEndpoint(GenerationEndpoint[ChatBody]):
    """POST /v1/chat/completions."""

    endpoint = "/v1/chat/completions"
    id_prefix = "chatcmpl"
    body_class = ChatBody

    async def work(self, body: ChatBody, call_id: str, arrived_s: float) -> Work:
        return await self._services.admission.chat(body, call_id, arrived_s)

    def shape(self, body: ChatBody, work: Work) -> Shape:
        return ChatShape(work, self._services.context.tokenizer, logprobs=body.logprobs)


class CompletionEndpoint(GenerationEndpoint[CompletionBody]):
    """POST /v1/completions."""

    endpoint = "/v1/completions"
    id_prefix = "cmpl"
    body_class = CompletionBody

    async def work(self, body: CompletionBody, call_id: str, arrived_s: float) -> Work:
        return await self._services.admission.completion(body, call_id, arrived_s)

    def shape(self, body: CompletionBody, work: Work) -> Shape:
        tokenizer = self._services.context.tokenizer
        return CompletionShape(work, tokenizer, logprobs=body.logprobs is not None, echo=body.echo)
