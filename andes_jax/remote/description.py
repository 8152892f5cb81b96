"""What an engine says of itself: once to each front end, and its figures whenever it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from andes_jax.engine import EngineStatistics, Limits
from andes_jax.engine.contract import EngineState
from andes_jax.remote.codec import pack_target, unpack_target
from andes_jax.remote.protocol import andes_pb2 as pb
from andes_jax.request import FinishReason, QoeTarget, Tier

_BY_TIER = ("running", "waiting")
_FIGURES = tuple(each.name for each in fields(EngineStatistics) if each.name not in (*_BY_TIER, "finished"))


@dataclass(frozen=True, slots=True)
class Description:
    """What a front end has to know of the engine it serves."""

    version: str  # of andes-jax; both ends have to be the same
    model: str  # its name in the API
    identity: str  # digest of the decoder and its vocabulary
    text: str = ""  # model, device and sizes, one line for people
    fingerprint: str = ""  # system_fingerprint of replies
    expectations: Mapping[Tier, QoeTarget] = field(default_factory=dict)  # of readers, unless they say


def pack_description(description: Description, limits: Any, now_s: float) -> pb.Description:
    """With the engine's limits and the time on its clock."""
    return pb.Description(
        version=description.version,
        model=description.model,
        identity=description.identity,
        text=description.text,
        fingerprint=description.fingerprint,
        limits=pb.Limits(**{each.name: getattr(limits, each.name) for each in fields(Limits)}),
        expectations={int(tier): pack_target(target) for tier, target in description.expectations.items()},
        now_s=now_s,
    )


def unpack_description(packed: pb.Description) -> tuple[Description, Limits]:
    """The way back. Raises ValueError for a tier that does not exist."""
    description = Description(
        version=packed.version,
        model=packed.model,
        identity=packed.identity,
        text=packed.text,
        fingerprint=packed.fingerprint,
        expectations={Tier(tier): unpack_target(target) for tier, target in packed.expectations.items()},
    )
    return description, Limits(**{each.name: getattr(packed.limits, each.name) for each in fields(Limits)})


def pack_statistics(statistics: Any, compiles_after_ready: int, state: EngineState) -> pb.EngineStatistics:
    """An engine's figures, with what its process knows beside them."""
    return pb.EngineStatistics(
        running=_pack_tiers(statistics.running),
        waiting=_pack_tiers(statistics.waiting),
        finished={reason.value: count for reason, count in statistics.finished.items()},
        compiles_after_ready=compiles_after_ready,
        state=state,
        **{name: getattr(statistics, name) for name in _FIGURES},
    )


def unpack_statistics(packed: pb.EngineStatistics) -> EngineStatistics:
    """The way back, without what the engine's process knows. Raises ValueError for an unknown reason."""
    figures = cast(dict[str, Any], {name: getattr(packed, name) for name in _FIGURES})
    return EngineStatistics(
        running=_unpack_tiers(packed.running),
        waiting=_unpack_tiers(packed.waiting),
        finished={FinishReason(reason): count for reason, count in packed.finished.items()},
        **figures,
    )


def _pack_tiers(counts: Mapping[Tier, int]) -> pb.PerTier:
    return pb.PerTier(**{tier.name.lower(): counts[tier] for tier in Tier})


def _unpack_tiers(packed: pb.PerTier) -> dict[Tier, int]:
    return {tier: getattr(packed, tier.name.lower()) for tier in Tier}
