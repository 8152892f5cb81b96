"""An engine as its front ends see it, wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from andes_jax.engine.door import State as EngineState
from andes_jax.events import EventSink
from andes_jax.request import Request

__all__ = ["EngineAway", "EngineContract", "EngineLimits", "EngineState"]


class EngineAway(Exception):
    """The engine is in another process that cannot be asked at the moment; the message says why."""


class EngineLimits(Protocol):
    """What the engine can hold at most."""

    @property
    def max_model_len(self) -> int: ...

    @property
    def max_sequences(self) -> int: ...

    @property
    def pool_tokens(self) -> int: ...

    @property
    def max_live(self) -> int: ...


class EngineContract(Protocol):
    """Every method may be called from any thread."""

    @property
    def state(self) -> EngineState: ...

    @property
    def limits(self) -> EngineLimits: ...

    @property
    def room(self) -> int: ...

    def submit_all(self, requests: Sequence[Request], sink: EventSink) -> Future[None] | None:
        """Accept all of the requests or raise a Refusal and accept none.

        An engine elsewhere returns a future, which ends once the engine has taken all of them, or with its Refusal.
        """
        ...

    def cancel(self, request_id: str) -> None: ...

    def pause(self, request_id: str) -> None: ...  # idempotent, as resume; ids that are not known change nothing

    def resume(self, request_id: str) -> None: ...

    # As JSON; None: not known, or no longer. This and statistics raise EngineAway where the engine cannot be asked,
    # and wait for one that is elsewhere: keep them off event loops.
    def explain(self, request_id: str) -> dict[str, Any] | None: ...

    def drain(self) -> None: ...

    def stop(self, timeout_s: float) -> bool: ...

    def statistics(self) -> Any: ...
