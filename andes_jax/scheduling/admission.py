"""Which waiting sequences start to run, in a plan's spare tokens, slots and pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from andes_jax.request import Tier
from andes_jax.scheduling.displacement import Displacer
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.journal import Journal
from andes_jax.scheduling.ledger import Columns, Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.plan import PageCopy
from andes_jax.scheduling.policies.base import Moment, Policy
from andes_jax.scheduling.roster import Roster, rows_of
from andes_jax.scheduling.sequence import Sequence
from andes_jax.scheduling.stowage import Stowage

CANDIDATES = 32  # waiting sequences looked at in one plan
ATTEMPTS = 4  # of those, how many may look in vain for pages that others would give up


class Admitter:
    """Takes candidates in the policy's order. Nobody overtakes one that lacks pages unless the policy says so.

    A displaced sequence's place is free only after its step in flight; the one it was displaced for comes first then.
    """

    def __init__(
        self,
        roster: Roster,
        ledger: Ledger,
        paging: Paging,
        stowage: Stowage,
        policy: Policy,
        limits: SchedulerLimits,
        displacer: Displacer,
        guarantee: Guarantee,
        journal: Journal,
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._paging = paging
        self._stowage = stowage
        self._policy = policy
        self._limits = limits
        self._displacer = displacer
        self._guarantee = guarantee
        self._journal = journal
        self._claims: dict[Sequence, None] = {}  # others were displaced for them, and they were not looked at since
        self._candidates: deque[Sequence] = deque()
        self._blocked: Sequence | None = None  # the first candidate that lacked pages
        self._denied: Sequence | None = None  # the first that could not be finished for certain beside those who run
        self._moment = Moment(0.0, 0, 0.0, 0.0)
        self._next_look_s = 0.0
        self._looking = False
        self._ranked = False
        self._seated = False  # somebody, in this plan
        self._fruitless = 0  # searches for pages in this plan
        self._denials = 0
        self.passed_over = False  # some of the batch tier, in this plan, for want of tokens
        self.loads: list[PageCopy] = []  # of those admitted in this plan

    @property
    def looking(self) -> bool:
        """Whether this plan looks at those who wait."""
        return self._looking

    @property
    def next_look_s(self) -> float:
        """When those who wait are looked at again, if nothing changes."""
        return self._next_look_s

    def begin(self, moment: Moment) -> None:
        """A new plan: decide whether to look at those who wait."""
        self._moment = moment
        self._displacer.begin(moment)
        self._blocked = self._denied = None
        self._ranked = self._seated = self.passed_over = False
        self._fruitless = self._denials = 0
        self.loads = []
        roster = self._roster
        due = roster.changed or moment.now >= self._next_look_s or not roster.running
        self._looking = due and bool(roster.waiting)
        if not roster.waiting:
            self._journal.waiting_for("nothing")
        if self._looking:
            roster.changed = False
            self._next_look_s = moment.now + self._policy.look_s

    def make_room(self) -> None:
        """Displace others for slots, before they get another step; for as much new work as a step can take."""
        roster = self._roster
        if not self._looking or roster.free_slots or not self._policy.preempts:
            return
        self._rank()
        victimless: set[int] = set()  # tiers whose best candidate found nobody to displace
        promised = 0
        budget = self._limits.step_tokens
        for sequence in list(self._candidates):
            if budget <= 0:
                break
            if sequence.tier in victimless:
                continue
            if promised == len(roster.leaving) + len(roster.free_slots):
                if not self._may_seat(sequence):
                    continue
                if not self._displacer.take_slot(sequence):
                    victimless.add(sequence.tier)
                    continue
                self._claims[sequence] = None
            promised += 1
            budget -= sequence.known

    def clear(self) -> None:
        """Forget all claims: everybody waits again."""
        self._claims.clear()
        self._roster.changed = True

    def out_of_tokens(self) -> None:
        """The plan is full: whoever is next is looked at again in the next plan."""
        roster = self._roster
        if self._looking and roster.waiting:
            roster.changed = True
            lacking = self._blocked is not None or self._denied is not None
            cause = self._cause() if lacking else "tokens"
            self._journal.waiting_for(cause if roster.free_slots else "slots")

    def next(self, left: Callable[[Tier], int], over: Sequence | None = None) -> Sequence | None:
        """The next sequence to run, seated, of a tier for whose prompts this step has tokens `left`;
        with `over`, only one that goes before that running sequence's prefill."""
        if not self._looking:
            return None
        if not self._roster.free_slots:
            self._journal.waiting_for("slots")
            self._roster.changed |= self._seated  # those behind may now be worth a place of others
            return None
        self._rank()
        now = self._moment.now
        while self._candidates:
            sequence = self._candidates[0]
            if over is not None and not self._policy.overtakes(sequence, over, now):
                return None
            self._candidates.popleft()
            if left(sequence.tier) <= 0:
                self.passed_over |= sequence.tier is Tier.BATCH
                self._roster.changed = True
                continue
            if self._blocked is not None and not self._policy.overtakes(sequence, self._blocked, now):
                continue
            if self._denied is not None and self._stands_behind_the_denied(sequence):
                continue
            # One that could not be finished for certain waits for others of its kind to end, not for pages.
            if not self._may_seat(sequence):
                self._denied = self._denied or sequence
                self._denials += 1
                continue
            tokens = self._tokens_to_seat(sequence)
            # Finding what the cache has of its prompt takes a while, and is no use without pages for the rest.
            if self._fruitless == ATTEMPTS and self._missing(sequence, [], tokens) > 0:
                self._blocked = self._blocked or sequence
                continue
            self._claims.pop(sequence, None)
            if self._admit(sequence, tokens):
                self._seated = True
                return sequence
            self._fruitless += 1
            self._blocked = self._blocked or sequence
        self._journal.waiting_for(self._cause())
        if self._blocked is None and self._denied is None and self._roster.waiting:
            self._roster.changed = True
        return None

    def _cause(self) -> str:
        """What those who were looked at in vain lack."""
        if self._blocked is not None:
            return "pages"
        return "others" if self._denied is not None else "tokens" if self.passed_over else "nothing"

    def _may_seat(self, sequence: Sequence) -> bool:
        pages = self._paging.pages_for(self._tokens_to_seat(sequence))
        return self._guarantee.may_seat(sequence, pages, self._roster.running)

    def _stands_behind_the_denied(self, sequence: Sequence) -> bool:
        """Whether seating the sequence would prolong the wait of one that waits for such as it to end."""
        assert self._denied is not None
        if not self._guarantee.covers(sequence):
            return False
        if self._denials == ATTEMPTS:
            return True
        return not self._policy.overtakes(sequence, self._denied, self._moment.now)

    def _rank(self) -> None:
        """Find the candidates, once a plan."""
        if self._ranked:
            return
        self._ranked = True
        waiting = self._roster.waiting
        claims = self._claims = {sequence: None for sequence in self._claims if sequence.place is not None}
        if len(waiting) < 2:
            self._candidates = deque(waiting.members)
            return
        columns = self._ledger.columns(waiting.rows, self._moment.now)
        order = self._policy.admit_order(columns, self._moment, CANDIDATES).tolist()
        ranked = [waiting.members[place] for place in order]
        self._candidates = deque(dict.fromkeys([*claims, *ranked]))

    def _hit(self, sequence: Sequence) -> tuple[list[int], int]:
        """Cached pages that the sequence may share, as Paging.find has them."""
        return ([], 0) if self._stowage.holds_pages(sequence) else self._paging.find(sequence)

    def _admit(self, sequence: Sequence, tokens: int) -> bool:
        hit = self._hit(sequence)
        missing = self._missing(sequence, hit[0], tokens)
        if missing > 0:
            if not self._find_pages(sequence, missing, hit[0]):
                return False
            hit = self._hit(sequence)
        kept = self._stowage.holds_pages(sequence)
        if kept:
            if not self._paging.extend(sequence, tokens):
                return False
        elif not self._paging.seat(sequence, hit, tokens):
            return False
        loaded = self._stowage.load(sequence, len(hit[0]))
        if loaded is not None:
            self.loads.append(loaded)
        self._note(sequence, kept, loaded)
        self._roster.seat(sequence, self._moment.now)
        return True

    def _find_pages(self, sequence: Sequence, missing: int, shared: list[int]) -> bool:
        """Free `missing` pages that others hold; False: they are not there yet."""
        displacer = self._displacer
        if displacer.spare_pages(sequence, missing, shared):
            return True
        if not displacer.take_pages(sequence, missing, shared):
            return False
        if not self._roster.leaving and displacer.spare_pages(sequence, missing, shared):
            return True
        self._claims[sequence] = None
        return False

    def _note(self, sequence: Sequence, kept: bool, loaded: PageCopy | None) -> None:
        columns = self._columns_of(sequence)
        terms = {name: round(float(value[0]), 4) for name, value in self._policy.explain(columns, self._moment).items()}
        self._journal.note(
            sequence.id,
            "admitted",
            waiting=len(self._roster.waiting) - 1,
            running=len(self._roster.running),
            terms=terms,
            computed=sequence.computed,
            kept=kept,
            loaded_pages=0 if loaded is None else len(loaded.host_pages),
        )

    def _tokens_to_seat(self, sequence: Sequence) -> int:
        """Positions whose pages are taken at once: what is known, and what a preempted one is sheltered for."""
        if sequence.preempt_count or sequence.yields:
            return min(self._roster.shelter_of(sequence), sequence.goal)
        return min(sequence.known, sequence.goal)

    def _missing(self, sequence: Sequence, hit: list[int], tokens: int) -> int:
        """Pages short of seating the sequence with a margin for those who run, so that it does not push one out."""
        pool = self._paging.pool
        wanted = self._paging.pages_for(tokens) - len(hit) + pool.idle(hit) - len(sequence.pages)
        running = len(self._roster.running)
        if not running:
            return wanted - pool.available
        return wanted + running + pool.total // 64 - pool.room(sequence.tier)

    def _columns_of(self, sequence: Sequence) -> Columns:
        return self._ledger.columns(rows_of([sequence]), self._moment.now)
