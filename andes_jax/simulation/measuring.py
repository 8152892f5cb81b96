"""Times steps of known work on a runner, as the engine runs them: two in flight, so that what overlaps is not counted.

A case is a plan that is dispatched again and again. Cases take turns over several rounds, so that a machine that is
slow for a moment is not slow for one case alone, and the median counts.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from andes_jax.request import SamplingParams
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.plan import Admission, PageCopy, Runner, Slice, StepPlan
from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.runner import work_of

CONTEXTS = (64, 512, 2048)  # tokens before a slice, as far as they fit
COPIED_PAGES = (1, 4, 16)  # each way
ROUNDS, STEPS = 3, 4  # steps counted for each case in each round
WARM_STEPS = 1  # before them, not counted
MIXED_CASES = 16
PATIENCE_S = 60.0  # after which no further round of the same cases begins: a machine that slow is not quiet anyway

Progress = Callable[[str], None]  # told in words what has been measured, ROUNDS times a case


@dataclass(frozen=True, slots=True)
class RunnerShape:
    """What plans for a runner must keep to."""

    ladder: Ladder
    pages: int  # of the pool, page 0 included
    page_tokens: int
    max_model_len: int
    max_sequences: int
    host_pages: int

    def contexts(self, rows: int, taken: int) -> tuple[int, ...]:
        """Tokens before slices of `taken` tokens in each of `rows` sequences with pages of their own, ascending."""
        room = min(self.max_model_len, (self.pages - 1) // rows * self.page_tokens) - taken
        return tuple(sorted({min(context, room) for context in CONTEXTS if room >= 1}))


class Measurement(NamedTuple):
    """One case."""

    work: StepWork
    seconds: float  # of a step, with another in flight


def decode_cases(shape: RunnerShape) -> list[StepPlan]:
    """Every compiled number of rows, as full as it gets, at several contexts."""
    counts = [min(rows, shape.max_sequences) for rows in shape.ladder.decode_rows]
    return [_plan(shape, [(1, context)] * count) for count in counts for context in shape.contexts(count, 1)]


def prefill_cases(shape: RunnerShape) -> list[StepPlan]:
    """Every compiled number of queries, in full, at the beginning of a prompt and at several contexts."""
    return [
        _plan(shape, [(queries, context)])
        for queries in shape.ladder.prefill_queries
        if queries > 1 and shape.contexts(1, queries)
        for context in (0, *shape.contexts(1, queries))
    ]


def copy_cases(shape: RunnerShape) -> list[StepPlan]:
    """A decode beside copies of pages, as many to the host as from it."""
    plans = []
    for pages in COPIED_PAGES:
        if 2 * pages <= min(shape.host_pages, shape.pages - 2):
            plan = _plan(shape, [(1, shape.page_tokens - 1)])
            save = PageCopy(tuple(range(2, 2 + pages)), tuple(range(pages)))
            load = PageCopy(tuple(range(2 + pages, 2 + 2 * pages)), tuple(range(pages, 2 * pages)))
            plans.append(replace(plan, saves=(save,), loads=(load,)))
    return plans


def mixed_cases(shape: RunnerShape, seed: int) -> list[StepPlan]:
    """Decodes at uneven contexts beside one slice of a prompt, of sizes that fit no program exactly."""
    draw = random.Random(seed)
    plans = []
    for _ in range(MIXED_CASES):
        rows = draw.randint(0, shape.max_sequences - 1)
        largest = shape.ladder.prefill_queries[-1]
        room = shape.contexts(rows + 1, largest)
        if room:
            parts = [(1, draw.randint(1, room[-1])) for _ in range(rows)]
            parts.append((draw.randint(2, largest), draw.randint(0, room[-1])))
            plans.append(_plan(shape, parts))
    return plans


def measure(
    runner: Runner,
    plans: Sequence[StepPlan],
    shape: RunnerShape,
    *,
    progress: Progress | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> list[Measurement]:
    """The time of every plan. The runner must be idle; its slots and pages are overwritten."""
    began_s = now()
    numbers = count(1)
    _run(runner, _preparation(shape), numbers)
    taken: list[list[float]] = [[] for _ in plans]
    for turn in range(ROUNDS):
        if turn and now() - began_s > PATIENCE_S:
            break
        for plan, times in zip(plans, taken, strict=True):
            times += _steps(runner, plan, numbers, now)
            if progress is not None:
                progress(words_of(work_of(plan)))
    return [Measurement(work_of(plan), statistics.median(times)) for plan, times in zip(plans, taken, strict=True)]


def words_of(work: StepWork) -> str:
    """A step's work, for people."""
    parts = [f"{work.decodes} decodes"] if work.decodes else []
    parts += [f"{tokens} prompt tokens after {before}" for tokens, before in work.prefills]
    return ", ".join(parts + ([f"{work.copied_pages} pages copied"] if work.copied_pages else []))


def _plan(shape: RunnerShape, parts: Sequence[tuple[int, int]]) -> StepPlan:
    """One slice for each (tokens, tokens before them), each in pages of its own. Ids are those of no token to stop at:
    what is computed takes the same time whatever it is."""
    slices, page = [], 1
    for slot, (taken, before) in enumerate(parts):
        pages = -(-(before + taken) // shape.page_tokens)
        ids = None if taken == 1 else (1,) * taken
        slices.append(Slice(slot, before, taken, ids, tuple(range(page, page + pages)), sample=True))
        page += pages
    return StepPlan(0, tuple(slices))


def _preparation(shape: RunnerShape) -> list[StepPlan]:
    """Every slot admitted, with a token drawn for it; and every host page that copies will read, saved."""
    sampling = SamplingParams(max_tokens=shape.max_model_len)
    admissions = tuple(Admission(slot, sampling, (1,)) for slot in range(shape.max_sequences))
    first = StepPlan(0, admissions=admissions)
    plans = [first]
    for slot in range(shape.max_sequences):
        plans.append(StepPlan(0, (Slice(slot, 0, 1, (1,), (1,), sample=True),)))
    for plan in copy_cases(shape):
        (load,) = plan.loads
        plans.append(StepPlan(0, plans[-1].slices, saves=(load,)))
    return plans


def _run(runner: Runner, plans: Sequence[StepPlan], numbers: Iterator[int]) -> None:
    for plan in plans:
        runner.dispatch(replace(plan, number=next(numbers)))
        runner.collect()


def _steps(runner: Runner, plan: StepPlan, numbers: Iterator[int], now: Callable[[], float]) -> list[float]:
    """Seconds between the ends of steps, while one more is always in flight."""
    ends = []
    runner.dispatch(replace(plan, number=next(numbers)))
    for _ in range(WARM_STEPS + STEPS):
        runner.dispatch(replace(plan, number=next(numbers)))
        runner.collect()
        ends.append(now())
    runner.collect()
    ends = ends[WARM_STEPS - 1 :]
    return [end - begin for begin, end in zip(ends, ends[1:], strict=False)]
