"""The scheduler's parts wired together without a scheduler, and columns written by hand."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from andes_jax.memory.host import HostPages
from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.prediction.lengths import LengthHistory
from andes_jax.request import Tier
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.journal import Journal
from andes_jax.scheduling.ledger import Columns, Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.policies.base import Moment
from andes_jax.scheduling.roster import Roster
from andes_jax.scheduling.sequence import Sequence
from andes_jax.scheduling.step_time import StepTimeModel
from andes_jax.scheduling.stowage import Stowage
from andes_jax.simulation.known_times import KnownTimes
from tests.fakes import make_request
from tests.simulations import LinearTimes


def known_times(page: float = 0.0, **costs: float) -> StepTimeModel:
    """Steps that take no time of their own but so much for each decode, position, prompt token and copied page."""
    return KnownTimes(LinearTimes(**{"step": 0.0, "page": page, **costs}), page)


COPIES_ARE_CHEAP = known_times(page=1e-6, prefill=1.0)
COPIES_ARE_DEAR = known_times(page=1.0, prefill=1e-6)


@dataclass
class Parts:
    """What a scheduler is made of, as far as these tests need it."""

    limits: SchedulerLimits
    pool: PagePool
    paging: Paging
    journal: Journal
    ledger: Ledger
    stowage: Stowage
    roster: Roster
    guarantee: Guarantee

    def running(self, id: str, tier: Tier = Tier.STREAMING, prompt: int = 3, **options) -> Sequence:
        """A request that has the pages of its prompt, computed, and a slot."""
        sequence = self.roster.add(make_request(id, range(prompt), 20, tier=tier, **options))
        assert self.paging.seat(sequence, ([], 0), prompt)
        sequence.computed = prompt
        self.roster.seat(sequence, 0.0)
        return sequence

    def parked(self, id: str, tier: Tier = Tier.STREAMING, prompt: int = 3, **options) -> Sequence:
        """One that ran, and rests with its pages in place."""
        sequence = self.running(id, tier, prompt, **options)
        self.roster.pause(sequence, 0.0)
        return sequence


def parts(
    *, pages: int = 33, page_tokens: int = 4, slots: int = 2, max_preempt: int = 3, host_pages: int = 0,
    times: StepTimeModel | None = None, prefix: bool = False,
) -> Parts:  # fmt: skip
    """`pages` counts page 0, which nobody gets."""
    limits = SchedulerLimits(slots, 512, max(8, slots), 8, page_tokens, max_preempt)
    cache = PrefixCache(page_tokens) if prefix else None
    pool = PagePool(pages, cache)
    paging, journal, ledger = Paging(pool, cache, page_tokens), Journal(), Ledger(LengthHistory())
    stowage = Stowage(paging, HostPages(host_pages), times or COPIES_ARE_CHEAP, journal)
    roster = Roster(limits, paging, ledger, stowage, journal)
    return Parts(limits, pool, paging, journal, ledger, stowage, roster, Guarantee(limits, paging, ledger))


def columns(
    tier=(Tier.STREAMING,), *, arrived_s=0.0, queued_s=0.0, order=None, context=1, generated=0, remaining=1,
    to_compute=0, slack_s=inf, pace_s=0.0, held_s=0.0,
) -> Columns:  # fmt: skip
    """One entry for each tier; other values are one for all or one for each, and `order` counts up by itself."""
    tiers = np.asarray(tier, dtype=np.int64)
    values = (
        arrived_s, queued_s, range(len(tiers)) if order is None else order, context, generated, remaining, to_compute,
        slack_s, pace_s, held_s,
    )  # fmt: skip
    return Columns(tiers, *(np.broadcast_to(np.asarray(value, dtype=float), tiers.shape) for value in values))


def at(now: float, *, step: int = 1, used: float = 0.0, token_s: float = 0.0, slot_tokens: float = inf) -> Moment:
    """A moment at which the machine is idle, and memory no concern, unless told otherwise."""
    return Moment(now, step, used, token_s, slot_tokens)
