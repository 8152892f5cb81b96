"""The two values between deciding and computing: a StepPlan goes down to the runner, a StepResult comes up.

Both are self-contained, so that a logged run can be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from andes_jax.events import TokenLogprobs
from andes_jax.request import SamplingParams


@dataclass(frozen=True, slots=True)
class Admission:
    """A sequence that takes a slot: what the device must hold for it before its first slice."""

    slot: int  # 0 <= slot < max_sequences, free until now
    sampling: SamplingParams
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...] = ()  # generated before a preemption; penalties count them


class Slice(NamedTuple):
    """Tokens first .. first+count-1 of one sequence, computed in this step. A decode is a slice of one token."""

    slot: int
    first: int  # position of the first token computed
    count: int  # type: ignore[assignment]  # >= 1; a tuple's own `count` is not wanted here
    token_ids: tuple[int, ...] | None  # their ids; None: the one id last drawn for the slot, still on the device
    pages: tuple[int, ...]  # the sequence's block table, long enough for first+count tokens; a page is never 0
    sample: bool  # draw the token at position first+count
    generated: int = 0  # output tokens before that draw; it counts against min_tokens
    # the ids at positions first+1 .. first+count, when their log-probabilities are wanted (the last may be absent)
    score_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PageCopy:
    """Whole pages copied between the device's pool and the host's store: device_pages[i] to or from host_pages[i]."""

    device_pages: tuple[int, ...]
    host_pages: tuple[int, ...]  # 0 <= page < host pages


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Everything the runner needs for one step, and why it was chosen."""

    number: int  # steps count up from 1
    slices: tuple[Slice, ...] = ()  # at most one per slot
    admissions: tuple[Admission, ...] = ()  # loaded before the slices run
    saves: tuple[PageCopy, ...] = ()  # device to host, before all else; this step may write the device pages anew
    loads: tuple[PageCopy, ...] = ()  # host to device, before the slices; the next step may save to the host pages
    why: dict[str, object] = field(default_factory=dict, compare=False)  # explain record

    @property
    def tokens(self) -> int:
        """Tokens this step computes."""
        return sum(part.count for part in self.slices)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step drew. Arrays are aligned with the plan's slices; rows that did not sample hold 0."""

    number: int
    token_ids: np.ndarray  # [slices] int32
    finite: np.ndarray  # [slices] bool; False: the row's logits held NaN or infinity and its token means nothing
    logprobs: dict[int, TokenLogprobs] = field(default_factory=dict)  # slice index -> of the drawn token, where asked
    scores: dict[int, list[TokenLogprobs]] = field(default_factory=dict)  # slice index -> of its score_ids
    device_s: float = 0.0  # from dispatch to the last result, seconds


class Runner(Protocol):
    """Computes plans in the order given. Only one thread calls it.

    `dispatch` returns before the step is done and keeps no reference to anything mutable; `collect` waits for the
    oldest dispatched step. Either may raise; then every page's content is lost and `reset` must come next,
    after which all slots are empty, all pages hold zeros and the host's store means nothing.
    """

    def dispatch(self, plan: StepPlan) -> None: ...

    def collect(self) -> StepResult: ...

    def reset(self) -> None: ...
