"""A policy to be compared, perhaps with a change: three_tier, or three_tier:beta=0 for an ablation."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from andes_jax.failure import UsageError
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.policies import SIMULATED_NAMES
from andes_jax.scheduling.priority import Weights

# These two belong to the model and to the pool, which all contenders share.
_LIMITS = {field.name for field in fields(SchedulerLimits)} - {"max_model_len", "page_tokens"}
_WEIGHTS = {field.name for field in fields(Weights) if field.type in ("float", "int", "bool")}


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy by name, and what is different from its defaults."""

    policy: str
    changes: tuple[tuple[str, float], ...] = ()  # fields of Weights and SchedulerLimits

    @property
    def label(self) -> str:
        """As it was written."""
        return ":".join([self.policy, *(f"{name}={value:g}" for name, value in self.changes)])

    def weights(self, base: Weights) -> Weights:
        """The policy's weights. Raises UsageError for values that make no sense."""
        return _changed(base, {name: value for name, value in self.changes if name in _WEIGHTS})

    def limits(self, base: SchedulerLimits) -> SchedulerLimits:
        """The scheduler's limits. Raises UsageError for values that make no sense."""
        return _changed(base, {name: value for name, value in self.changes if name in _LIMITS})


def parse_contender(words: str) -> Contender:
    """POLICY[:FIELD=NUMBER…]. Raises UsageError, naming what there is."""
    policy, *written = words.strip().split(":")
    if policy not in SIMULATED_NAMES:
        raise UsageError(f"no policy {policy!r}; there are {', '.join(SIMULATED_NAMES)}")
    changes: list[tuple[str, float]] = []
    for part in written:
        name, _, number = part.partition("=")
        if name not in _WEIGHTS | _LIMITS:
            known = ", ".join(sorted(_WEIGHTS | _LIMITS))
            raise UsageError(f"policy {words!r}: no {name!r} to change; there are {known}")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise UsageError(f"policy {words!r}: {name} needs a number, such as {name}=0")
        if any(name == changed for changed, _ in changes):
            raise UsageError(f"policy {words!r}: {name} is there twice")
        changes.append((name, value))
    return Contender(policy, tuple(changes))


def parse_contenders(words: str) -> tuple[Contender, ...]:
    """Several, with commas between them, each once. Raises UsageError."""
    contenders = tuple(parse_contender(part) for part in words.split(","))
    labels = [contender.label for contender in contenders]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"policies {words!r}: {twice} is there twice")
    return contenders


def _changed[T: (Weights, SchedulerLimits)](base: T, changes: dict[str, float]) -> T:
    kinds = {field.name: type(getattr(base, field.name)) for field in fields(base)}
    for name, value in changes.items():
        whole = math.isfinite(value) and value == int(value)
        if kinds[name] is not float and not (value in (0, 1) if kinds[name] is bool else whole):
            raise UsageError(f"{name} must be {'0 or 1' if kinds[name] is bool else 'a whole number'}, got {value:g}")
    try:
        return replace(base, **{name: kinds[name](value) for name, value in changes.items()})
    except ValueError as error:
        raise UsageError(str(error)) from error
