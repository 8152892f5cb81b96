"""What differs between layers and families."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """Fixed at compile time."""

    scale: float  # multiplies query . key
    window: int | None = None  # keys a query sees, itself included; None for all before it
    softcap: float | None = None  # scores become cap * tanh(scores / cap)
