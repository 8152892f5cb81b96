"""The one mutable thing per live request: how far its tokens are known, computed and shared, and what it holds."""

from __future__ import annotations

from enum import IntEnum

from andes_jax.events import TokenLogprobs
from andes_jax.request import FinishReason, Request


class State(IntEnum):
    """Where a sequence is. A preempted or paused one is WAITING again; it may still hold pages then."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2


class Sequence:
    """Token counts obey cached <= computed <= known.

    `computed` counts planned work and `known` counts tokens being drawn by steps in flight, whose ids join
    `token_ids` at their commit. Slot and pages outlive RUNNING until the last step in flight is committed.
    """

    __slots__ = (
        "cached",
        "capacity",
        "computed",
        "finish",
        "first_cached",
        "first_run_s",
        "goal",
        "id",
        "in_flight",
        "known",
        "max_known",
        "node",
        "order",
        "pages",
        "paused",
        "place",
        "preempt_count",
        "prompt_length",
        "published",
        "qoe",
        "queued_s",
        "request",
        "row",
        "scored",
        "scores",
        "sheltered_until",
        "slot",
        "state",
        "stop_ids",
        "stored",
        "stored_tokens",
        "table",
        "tier",
        "token_ids",
        "wants_logprobs",
        "yields",
    )

    def __init__(self, request: Request, order: int) -> None:
        sampling = request.sampling
        self.request = request
        self.id = request.id
        self.tier = request.tier
        self.order = order  # arrival number, kept over preemptions
        self.state = State.WAITING
        self.finish: FinishReason | None = None
        self.prompt_length = len(request.prompt_ids)
        self.token_ids = list(request.prompt_ids)  # prompt and committed output
        self.known = self.prompt_length  # len(token_ids) + tokens being drawn
        self.computed = 0  # positions whose keys and values are written or being written
        self.cached = 0  # positions taken over from the prefix cache
        self.first_cached: int | None = None  # `cached` when first admitted; None before
        self.max_known = self.prompt_length + sampling.max_tokens
        self.goal = max(self.max_known - 1, self.prompt_length)  # positions ever computed: the last token is only drawn
        self.slot: int | None = None
        self.in_flight = 0  # planned steps not yet committed
        self.pages: list[int] = []
        self.table: tuple[int, ...] = ()  # `pages`, rebuilt only when they change
        self.capacity = 0  # positions `pages` can hold
        self.published = 0  # leading pages that the prefix cache knows of
        self.node: int | None = 0  # prefix cache node of the last of them; None: no longer findable
        self.stored: tuple[int, ...] = ()  # host pages with the keys and values of its first pages
        self.stored_tokens = 0  # positions computed when it was stored
        self.row: int | None = None  # in the ledger; None before arrival and after the end
        self.place: int | None = None  # in the waiting queue
        self.paused = False  # not to run until resumed
        self.queued_s = request.arrived_s  # when it last began to wait
        self.first_run_s: float | None = None  # when it was first given a slot
        self.qoe: float | None = None  # quality of experience, set when it is finished; None: nobody read along
        self.preempt_count = 0  # pages or slot lost to others, yields not counted
        self.yields = 0  # pages or slot given up by batch work to more urgent work
        self.sheltered_until = 0  # cannot be preempted before so many tokens are known
        self.stop_ids = frozenset(sampling.stop_ids)
        self.wants_logprobs = sampling.top_logprobs is not None
        self.scored = not sampling.prompt_logprobs  # whether all wanted prompt scores are there
        self.scores: list[TokenLogprobs] = []  # of positions 1, 2, ...

    @property
    def generated(self) -> int:
        """Output tokens whose ids are known."""
        return len(self.token_ids) - self.prompt_length

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Ids drawn so far."""
        return tuple(self.token_ids[self.prompt_length :])

    def check(self) -> None:
        """Raise AssertionError when the counts are out of order."""
        assert self.cached <= self.computed <= self.known, (self.id, self.cached, self.computed, self.known)
        assert len(self.token_ids) <= self.known <= self.max_known, (self.id, len(self.token_ids), self.known)
        assert self.computed <= max(self.capacity, 0) or not self.pages, (self.id, self.computed, self.capacity)
        assert (self.state is State.RUNNING) <= (self.slot is not None), (self.id, self.state, self.slot)
