"""One request of a workload, as lengths alone: what a simulator serves and a load client sends."""

from __future__ import annotations

from dataclasses import dataclass

from andes_jax.request import QoeTarget, Tier


@dataclass(frozen=True, slots=True)
class Arrival:
    """When somebody asks for how much. Raises ValueError for lengths below 1 and times below 0."""

    arrived_s: float  # from the start of the workload
    prompt_tokens: int
    output_tokens: int  # the reply's true length, which no policy but an oracle may look at
    tier: Tier = Tier.REALTIME
    qoe: QoeTarget | None = None  # None: nobody reads along
    cancel_after_s: float | None = None  # from arrival; None: the reader stays to the end

    def __post_init__(self) -> None:
        if not self.arrived_s >= 0:
            raise ValueError(f"arrived_s is {self.arrived_s}, below 0")
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(f"{self.prompt_tokens} prompt and {self.output_tokens} output tokens: each is at least 1")
        if self.cancel_after_s is not None and not self.cancel_after_s >= 0:
            raise ValueError(f"cancel_after_s is {self.cancel_after_s}, below 0")
