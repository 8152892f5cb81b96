"""The parts of one application that its routes share."""

from __future__ import annotations

from dataclasses import dataclass

from server.admission import Admission
from server.body import BodyReader
from server.context import ServerContext
from server.front_end import FrontEnd
from server.lifecycle import Lifecycle
from server.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Services:
    """Made once for each application."""

    context: ServerContext
    admission: Admission
    bodies: BodyReader
    front_end: FrontEnd
    lifecycle: Lifecycle
    metrics: Metrics

    @classmethod
    def of(cls, context: ServerContext) -> Services:
        """All parts, not yet in use."""
        return cls(
            context=context,
            admission=Admission(context),
            bodies=BodyReader(context.settings),
            front_end=FrontEnd(context.engine),
            lifecycle=Lifecycle(),
            metrics=Metrics(context.engine, context.compiles_after_ready),
        )
