"""The parts of one application that its routes share."""

from __future__ import annotations

from dataclasses import dataclass

from server.admission import Admission
from server.body import BodyReader
from server.chunking import ChunkLimits
from server.context import ServerContext
from server.front_end import FrontEnd
from server.lifecycle import Lifecycle
from server.metrics import Metrics
from server.pace import Pacing
from server.request_log import RequestLog
from server.stream_profile import StreamProfiler


@dataclass(frozen=True, slots=True)
class Services:
    """Made once for each application."""

    context: ServerContext
    admission: Admission
    bodies: BodyReader
    front_end: FrontEnd
    lifecycle: Lifecycle
    metrics: Metrics
    pacing: Pacing
    request_log: RequestLog
    profiler: StreamProfiler | None  # None: streams are not profiled

    @classmethod
    def of(cls, context: ServerContext) -> Services:
        """All parts, not yet in use."""
        metrics = Metrics(context.engine, context.compiles_after_ready, context.settings.shared_metrics)
        request_log = RequestLog(context, metrics.log_lines_dropped)
        front_end = FrontEnd(context.engine, request_log.add, context.clock)
        settings = context.settings
        limits = ChunkLimits(settings.chunk_bytes, settings.send_interval_s, settings.adaptive_chunks)
        return cls(
            context=context,
            admission=Admission(context),
            bodies=BodyReader(context.settings),
            front_end=front_end,
            lifecycle=Lifecycle(),
            metrics=metrics,
            pacing=Pacing(limits, context.clock, front_end),
            request_log=request_log,
            profiler=StreamProfiler(context) if context.settings.profile_streaming else None,
        )
