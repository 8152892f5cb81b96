"""What differs between layers and families."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """Fixed at compile time. Raises ValueError for a window without a key."""

    scale: float  # multiplies query . key
    window: int | None = None  # keys a query sees, itself included; None for all before it
    softcap: float | None = None  # scores become cap * tanh(scores / cap)

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"a window of {self.window} keys; a query sees itself at least")
