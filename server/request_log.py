"""A line of JSON for every request that ended: what traces are made of, and what explains a wait afterwards."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from prometheus_client import Counter

from andes_jax.engine.contract import EngineAway
from andes_jax.events import Usage
from andes_jax.request import FinishReason, Request
from server.context import ServerContext

logger = logging.getLogger("andes_jax.server")

MOST_WAITING = 4096  # lines; more are dropped and counted
BATCH = 256  # lines in one write

_Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that is over. Times are the engine's; None: it never came so far, as when it was refused."""

    request: Request
    finish: FinishReason
    ended_s: float | None = None
    first_token_s: float | None = None
    usage: Usage | None = None


class RequestLog:
    """Writes the lines in a thread of its own, which begins with the first one. Without a file it does nothing."""

    def __init__(self, context: ServerContext, dropped: Counter) -> None:
        self._context = context
        self._path = context.settings.request_log
        self._dropped = dropped  # by reason
        self._waiting: queue.Queue[_Line | None] = queue.Queue(MOST_WAITING)  # None: that was the last
        self._thread: threading.Thread | None = None
        self._complained = False

    def add(self, ended: Ended) -> None:
        """Have a line written. Never waits, nor raises; to be called from one thread."""
        if self._path is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="request-log", daemon=True)
            self._thread.start()
        # What the engine's clock shows at the Unix epoch.
        epoch_s = self._context.clock.now() - time.time()
        try:
            self._waiting.put_nowait(line_of(ended, self._context.model_id, epoch_s))  # and not the whole prompt
        except queue.Full:
            self._dropped.labels("queue full").inc()

    def close(self, timeout_s: float) -> None:
        """Wait until everything is written, at most so long. Nothing may be added afterwards."""
        if self._thread is None:
            return
        try:
            self._waiting.put(None, timeout=timeout_s)
        except queue.Full:
            logger.warning("the request log %s is incomplete: its file is too slow", self._path)
            return
        self._thread.join(timeout_s)

    def _write_all(self) -> None:
        more = True
        while more:
            batch = [self._waiting.get()]
            while batch[-1] is not None and len(batch) < BATCH and not self._waiting.empty():  # nobody else takes
                batch.append(self._waiting.get())
            more = batch[-1] is not None
            self._write([line for line in batch if line is not None])

    def _write(self, batch: list[_Line]) -> None:
        if self._path is None or not batch:
            return
        try:
            lines = b"".join(self._lines(batch))
            with self._path.open("ab") as file:  # anew each time, so that it may be moved away
                file.write(lines)
        except Exception as error:
            self._dropped.labels("not written").inc(len(batch))
            if not self._complained:
                self._complained = True
                expected = isinstance(error, OSError)
                logger.warning("the request log cannot be written: %s", error, exc_info=None if expected else error)
        else:
            self._complained = False

    def _lines(self, batch: Iterable[_Line]) -> Iterable[bytes]:
        for line in batch:
            try:
                explanation = self._context.engine.explain(line["id"])
            except EngineAway:  # the line has the rest all the same
                explanation = None
            if explanation is not None:
                line["explain"] = explanation["events"]
                line["waits"] = explanation.get("waits", [])
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)


def line_of(ended: Ended, model_id: str, epoch_s: float) -> _Line:
    """The line's members but for the explanation. `epoch_s` is what the engine's clock shows at the Unix epoch."""
    request, usage, target = ended.request, ended.usage, ended.request.qoe
    arrived_s = request.arrived_s
    qoe = None if usage is None else usage.qoe
    if ended.finish is FinishReason.REFUSED and target is not None:
        qoe = 0.0
    return {
        "id": request.id,
        "model": model_id,
        "arrived": arrived_s - epoch_s,
        "tier": request.tier.name.lower(),
        "prompt_tokens": len(request.prompt_ids),
        "cached_tokens": 0 if usage is None else usage.cached_tokens,
        "output_tokens": 0 if usage is None else usage.completion_tokens,
        "finish": ended.finish.value,
        "ttft_s": None if ended.first_token_s is None else ended.first_token_s - arrived_s,
        "latency_s": None if ended.ended_s is None else ended.ended_s - arrived_s,
        "waited_s": None if usage is None else usage.waited_s,
        "qoe": qoe,
        "expected_ttft_s": None if target is None else target.first_token_s,
        "expected_tokens_per_s": None if target is None else target.tokens_per_s,
        "preemptions": 0 if usage is None else usage.preemptions,
    }
