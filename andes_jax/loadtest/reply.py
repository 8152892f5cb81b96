"""One reply of a server of the OpenAI API as it arrives: events of a stream, or an error."""

from __future__ import annotations

from typing import Any

import orjson

from andes_jax.loadtest.token_times import EventLog

_MAX_ERROR = 64 * 1024  # bytes kept of a body that is no stream
_MAX_EVENT = 4 * 1024 * 1024
_OVERLOADED = (429, 503)
_OVERLOAD_CODES = ("engine_overloaded", "rate_limit_exceeded", "shutting_down")
_BROKEN_CODES = ("engine_failed", "cancelled")  # of andes-jax, also with 503


class StreamedReply:
    """Takes one response and keeps what came when, what the server counted and what went wrong."""

    def __init__(self) -> None:
        self.status = 0
        self.log = EventLog()
        self.finish: str | None = None  # finish_reason
        self.usage: dict[str, Any] = {}
        self.error: str | None = None  # in the server's words
        self.refused = False  # whether the error says that the server has too much to do
        self.param: str | None = None  # that the error is about
        self.done = False  # whether [DONE] came
        self._stream = False
        self._pending = b""  # of a line, or a body that is no stream

    def begin(self, status: int, content_type: str) -> None:
        self.status = status
        self._stream = status == 200 and content_type.startswith("text/event-stream")

    def body(self, data: bytes, at_s: float) -> None:
        if not self._stream:
            self._pending += data[: _MAX_ERROR - len(self._pending)]
            return
        lines = (self._pending + data if self._pending else data).split(b"\n")
        self._pending = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), at_s)
        if len(self._pending) > _MAX_EVENT:
            self._fail("an event of the stream does not end")
            self._pending = b""

    def whole(self) -> dict[str, Any] | None:
        """The JSON object of a response that is no stream; None where it is none."""
        try:
            found = orjson.loads(self._pending)
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None

    def count(self, name: str) -> int | None:
        """A number of tokens that the last `usage` gives; None where it does not."""
        value = self.usage.get(name)
        return value if isinstance(value, int) else None

    def conclude(self) -> None:
        """The response is whole: see whether the reply is."""
        if self.error is not None:
            return
        if self._stream:
            if self.finish is None:
                self._fail("the stream ended without a finish_reason")
        elif self.status != 200:
            self._fault(self.whole())
        else:
            self._fail("the reply is no event stream")

    def _event(self, data: bytes, at_s: float) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        try:
            event = orjson.loads(data)
            self._take(event, at_s)
        except (orjson.JSONDecodeError, AttributeError, TypeError, KeyError, IndexError):
            self._fail(f"an event of the stream is not as the API has them: {data[:120].decode(errors='replace')}")

    def _take(self, event: dict[str, Any], at_s: float) -> None:
        if event.get("error") is not None:
            self._fault(event)
            return
        usage = event.get("usage")
        if usage is not None:
            if not isinstance(usage, dict):
                raise TypeError("usage is no object")
            self.usage = usage
        choices = event["choices"]
        if not choices:
            return
        text, finish = choices[0].get("text") or "", choices[0].get("finish_reason")
        self.log.add(at_s, len(text), None if usage is None else self.count("completion_tokens"))
        if finish is not None:
            self.finish = str(finish)

    def _fault(self, body: dict[str, Any] | None) -> None:
        """Note an error object, or a status without one."""
        found: Any = (body or {}).get("error", body)
        fault = found if isinstance(found, dict) else {"message": found}
        message = fault.get("message") or fault.get("detail") or self._pending[:200].decode(errors="replace")
        self.param = fault.get("param") if isinstance(fault.get("param"), str) else None
        code = fault.get("code")
        self.refused = code in _OVERLOAD_CODES or (self.status in _OVERLOADED and code not in _BROKEN_CODES)
        self._fail(" ".join(str(message).split())[:500] or "no reason given")

    def _fail(self, message: str) -> None:
        if self.error is None:
            self.error = message if self.status == 200 else f"HTTP {self.status}: {message}"
