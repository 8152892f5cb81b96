"""What an engine tells about itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from andes_jax.memory.pool import PagePool
from andes_jax.request import FinishReason, Tier
from andes_jax.scheduling.scheduler import Scheduler

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine can serve at most."""

    max_model_len: int  # tokens of prompt and output of one request
    max_sequences: int  # requests running at once
    pool_tokens: int  # tokens of all running requests together
    max_live: int  # requests running and waiting


@dataclass(slots=True)
class Counters:
    """Written by the engine's thread alone."""

    steps: int = 0
    step_failures: int = 0
    invariant_failures: int = 0
    sink_failures: int = 0
    host_s: float = 0.0
    device_s: float = 0.0
    finished: dict[FinishReason, int] = field(default_factory=lambda: dict.fromkeys(FinishReason, 0))

    def check_idle(self, pool: PagePool) -> None:
        """Count it when pages are not accounted for though nothing runs."""
        try:
            pool.check()
        except AssertionError as error:
            self.invariant_failures += 1
            logger.error("pages are not accounted for while idle: %s", error)


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """One moment's figures; totals count from the engine's start."""

    running: dict[Tier, int]
    waiting: dict[Tier, int]
    slots_free: int
    pages_free: int
    pages_cached: int
    pages_live: int
    pages_total: int
    fragmentation: float  # 1 - largest free run / free pages
    steps: int
    preemptions: int
    paused: int  # replies that rest because their clients leave them unread
    host_pages_used: int  # of the host's store
    saved_pages: int  # copied to the host so far
    loaded_pages: int  # and back
    recomputed_tokens: int  # given up by preempted replies, to be computed again
    prefix_hit_tokens: int  # prompt tokens whose keys and values were reused
    prompt_tokens: int
    generated_tokens: int
    step_failures: int
    invariant_failures: int  # times the pool's counts did not add up when idle
    sink_failures: int  # batches of events that a front end did not take
    finished: dict[FinishReason, int]  # requests by how they ended
    host_s: float  # of the last step: planning, committing, text and events
    device_s: float  # of the last step: from dispatch to its result


def snapshot(scheduler: Scheduler, counters: Counters) -> EngineStatistics:
    """Figures from counters that another thread may be changing: each is right, together they may be a step apart."""
    roster, pool, paging, stowage = scheduler.roster, scheduler.pool, scheduler.paging, scheduler.stowage
    waiting = list(roster.waiting.per_tier)
    for sequence in list(roster.held.values()):
        waiting[sequence.tier] += 1
    return EngineStatistics(
        running=dict(zip(Tier, roster.running_per_tier, strict=True)),
        waiting=dict(zip(Tier, waiting, strict=True)),
        slots_free=len(roster.free_slots),
        pages_free=pool.free,
        pages_cached=pool.cached,
        pages_live=pool.live,
        pages_total=pool.total,
        fragmentation=pool.fragmentation,
        steps=counters.steps,
        preemptions=roster.preemptions,
        paused=sum(sequence.paused for sequence in list(roster.held.values())),
        host_pages_used=stowage.host_pages.total - stowage.host_pages.free,
        saved_pages=stowage.saved_pages,
        loaded_pages=stowage.loaded_pages,
        recomputed_tokens=stowage.recomputed_tokens,
        prefix_hit_tokens=paging.hit_tokens,
        prompt_tokens=paging.prompt_tokens,
        generated_tokens=scheduler.generated_tokens,
        step_failures=counters.step_failures,
        invariant_failures=counters.invariant_failures,
        sink_failures=counters.sink_failures,
        finished=dict(counters.finished),
        host_s=counters.host_s,
        device_s=counters.device_s,
    )
