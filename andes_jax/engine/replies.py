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
        """What one step brought, without usage. A stop string in the text ends the reply, whatever else it says."""
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
        return TokenEvent(self.request.id, now, text, ids, logprobs, prompt_logprobs, finish, message)

    def end(self, reason: FinishReason, now: float, message: str | None = None) -> TokenEvent:
        """The last event of a reply that something else than its tokens ends."""
        return TokenEvent(self.request.id, now, finish=reason, message=message, usage=self.usage())

    def usage(self) -> Usage:
        """What it cost and how it was for its reader, so far."""
        sequence, prompt = self.sequence, len(self.request.prompt_ids)
        if sequence is None:
            return Usage(prompt, self.completion_tokens)
        started = sequence.first_run_s
        waited_s = None if started is None else max(0.0, started - self.request.arrived_s)
        left = sequence.finish is FinishReason.CANCELLED
        return Usage(
            prompt,
            self.completion_tokens,
            sequence.first_cached or 0,
            None if left else sequence.qoe,
            waited_s,
            sequence.preempt_count + sequence.yields,
        )


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
