"""When requests come, where that was not recorded: Poisson, gamma and on-off processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from andes_jax.failure import UsageError

FORMS = "give poisson, gamma:CV or on_off:ON_SECONDS/OFF_SECONDS"


@dataclass(frozen=True, slots=True)
class Process:
    """When requests come, at one per second on average. Raises UsageError for parameters that make no sense.

    poisson: independent of each other. gamma: gaps from a gamma distribution with coefficient of variation `cv`; 1 is
    poisson, more is burstier. on_off: poisson for `on_s` seconds, then nobody for `off_s` seconds, and again.
    """

    kind: str = "poisson"
    cv: float = 1.0
    on_s: float = 0.0
    off_s: float = 0.0

    def __post_init__(self) -> None:
        good = self.kind in ("poisson", "gamma", "on_off") and 0 < self.cv <= 100
        if self.kind == "on_off":
            good = 0 < self.on_s < math.inf and 0 <= self.off_s < math.inf
        if not good:
            raise UsageError(f"{self.words} is no arrival process; {FORMS}, with CV and ON_SECONDS above 0")

    @property
    def words(self) -> str:
        """As people write it."""
        parameters = {"gamma": f":{self.cv:g}", "on_off": f":{self.on_s:g}/{self.off_s:g}"}
        return self.kind + parameters.get(self.kind, "")


def parse_process(words: str) -> Process:
    """poisson, gamma:CV or on_off:ON_SECONDS/OFF_SECONDS. Raises UsageError."""
    kind, _, rest = words.strip().lower().replace("-", "_").partition(":")
    try:
        if kind == "gamma":
            return Process(kind, cv=float(rest))
        if kind == "on_off":
            on_s, off_s = map(float, rest.split("/"))
            return Process(kind, on_s=on_s, off_s=off_s)
        if kind == "poisson" and not rest:
            return Process()
    except ValueError:
        pass  # the message below says what would have been right
    raise UsageError(f"arrivals {words!r}: {FORMS}")


def arrival_times(process: Process, rate: float, duration_s: float, random: np.random.Generator) -> np.ndarray:
    """Ascending seconds [n] in [0, duration_s) at which requests come, `rate` per second on average."""
    share = process.on_s / (process.on_s + process.off_s) if process.kind == "on_off" else 1.0
    wanted = rate / share  # while anybody comes at all
    shape = 1 / process.cv**2
    open_s = duration_s
    if process.kind == "on_off":
        whole, rest = divmod(duration_s, process.on_s + process.off_s)
        open_s = whole * process.on_s + min(rest, process.on_s)
    pieces, last = [], 0.0
    while last < open_s:
        gaps = random.gamma(shape, 1 / shape, size=1024) / wanted
        pieces.append(last + np.cumsum(gaps))
        last = float(pieces[-1][-1])
    times = np.concatenate(pieces)
    times = times[times < open_s]
    if process.kind == "on_off":
        times = times + np.floor(times / process.on_s) * process.off_s
    return times
