"""One live request as its owner sees it: what became of its tokens as text, usage and events."""

from __future__ import annotations

from andes_jax.events import EventSink, TokenEvent, Usage
from andes_jax.request import FinishReason, Refusal, Request
from andes_jax.scheduling.scheduler import Advance
from andes_jax.scheduling.sequence import Sequence
from andes_jax.text.reply import ReplyText
from andes_jax.text.token_table import TokenTable


class Reply:
    """From submission to its one finish event. The engine's thread alone uses it once submitted."""

    __slots__ = ("_text", "completion_tokens", "request", "sequence", "sink")

    def __init__(self, request: Request, sink: EventSink, tokens: TokenTable) -> None:
        """Raises Refusal for stop strings that cannot be sought."""
        try:
            self._text = ReplyText(tokens, request.stop, request.skip_special_tokens)
        except ValueError as error:
            raise Refusal(str(error), "invalid_value", "stop") from error
        self.request = request
        self.sink = sink
        self.sequence: Sequence | None = None  # None until the scheduler has it
        self.completion_tokens = 0

    def event(self, advance: Advance, now: float) -> TokenEvent:
        """What one step brought. A stop string found in the text ends the reply, whatever the scheduler thought."""
        _, ids, finish, logprobs, prompt_logprobs, message = advance
        visible = ids[:-1] if finish is FinishReason.STOP else ids  # an id that stops has no text
        text, stopped, used = self._text.push(visible)
        if stopped:
            finish = FinishReason.STOP
            ids, logprobs = ids[:used], logprobs[:used]
        elif finish is not None:
            text += self._text.finish()
            if self._text.stopped and finish is FinishReason.LENGTH:
                finish = FinishReason.STOP
        self.completion_tokens += len(ids)
        usage = None if finish is None else self.usage()
        return TokenEvent(self.request.id, now, text, ids, logprobs, prompt_logprobs, finish, message, usage)

    def end(self, reason: FinishReason, now: float, message: str | None = None) -> TokenEvent:
        """The last event of a reply that something else than its tokens ends."""
        return TokenEvent(self.request.id, now, finish=reason, message=message, usage=self.usage())

    def usage(self) -> Usage:
        """Tokens so far."""
        cached = self.sequence.first_cached if self.sequence is not None else None
        return Usage(len(self.request.prompt_ids), self.completion_tokens, cached or 0)


class EventBatch:
    """Events of one step by sink."""

    __slots__ = ("by_sink",)

    def __init__(self) -> None:
        self.by_sink: dict[EventSink, list[TokenEvent]] = {}

    def add(self, sink: EventSink, event: TokenEvent) -> None:
        """Append to what the sink is told."""
        events = self.by_sink.get(sink)
        if events is None:
            self.by_sink[sink] = [event]
        else:
            events.append(event)
