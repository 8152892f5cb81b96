"""Runs plans on the device: the only place that sees both a plan and an array."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from andes_jax.events import TokenLogprobs
from andes_jax.model.attention import pool_shape
from andes_jax.model.decoder import Decoder
from andes_jax.model.sampling import Scores
from andes_jax.model.sampling_state import count_ids, load_rows, make_state, pack_ids, pack_rows
from andes_jax.request import SamplingParams
from andes_jax.runtime.host_store import HostStore, PageLayout, copy_sizes, staging_pages
from andes_jax.runtime.pack import HEADER, Dispatch, Packer
from andes_jax.runtime.programs import Computed, Picked, Programs
from andes_jax.runtime.shapes import Ladder, Shape
from andes_jax.scheduling.plan import Admission, StepPlan, StepResult


@dataclass(frozen=True, slots=True)
class RunnerSizes:
    """What is allocated and compiled, fixed for the life of a runner."""

    max_sequences: int
    pages: int  # of the pool, page 0 included
    page_tokens: int
    table_width: int  # pages of the longest sequence
    ladder: Ladder
    implementation: str  # of paged attention
    kv_dtype: jnp.dtype
    host_pages: int = 0  # of host memory, for pages of paused sequences

    @property
    def staging_pages(self) -> int:
        """Most pages of device memory, beside the pool, that copies on their way take."""
        return staging_pages(self.pages) if self.host_pages else 0


class _Run(NamedTuple):
    """One program on its way, with the arrays that will be read."""

    dispatch: Dispatch
    tokens: jax.Array | None  # as Picked.tokens; None where nothing was drawn
    scores: Scores | None  # of drawn tokens
    prompt_scores: Scores | None
    done: jax.Array  # ready when the program is over


class _Step(NamedTuple):
    plan: StepPlan
    runs: list[_Run]
    started_s: float


class DeviceRunner:
    """A `Runner` over a decoder. JAX runs what is dispatched in order and asynchronously."""

    def __init__(self, decoder: Decoder, sizes: RunnerSizes) -> None:
        self._spec = decoder.spec
        self._sizes = sizes
        self._programs = Programs(decoder, sizes.table_width)
        self._in_flight: deque[_Step] = deque()
        layout = PageLayout.of(self._spec, sizes.implementation, sizes.page_tokens, sizes.kv_dtype)
        self._store = HostStore(layout, sizes.host_pages, sizes.staging_pages, self._programs.device)
        self.reset()

    def reset(self) -> None:
        """Forget steps in flight and saved pages, and start with zeroed pages: zeros, since 0 * NaN is NaN."""
        self._in_flight.clear()
        self._store.clear()
        self._pools: list[jax.Array] = []  # freed before the new ones are made
        sizes = self._sizes
        shape = pool_shape(sizes.implementation, self._spec, sizes.pages, sizes.page_tokens)
        device = self._programs.device
        self._pools = [jnp.zeros(shape, sizes.kv_dtype, device=device) for _ in range(self._spec.layers)]
        self._state = jax.device_put(make_state(sizes.max_sequences, self._spec.vocab), device)
        self._packer = Packer(sizes.ladder, sizes.max_sequences, sizes.table_width)
        self._top_logprobs: list[int | None] = [None] * sizes.max_sequences

    def warm(self, progress: Callable[[str, int, int], None] | None = None) -> None:
        """Compile and run every program once. `progress` is told a name, how many are done, and how many there are."""
        shapes, copies = self._sizes.ladder.shapes, copy_sizes(self._sizes.host_pages)
        total = len(shapes) + len(copies)
        say = progress or (lambda *_: None)
        for done, shape in enumerate(shapes):
            say(f"{shape.rows} x {shape.queries} tokens", done, total)
            self._warm_shape(shape)
        for done, pages in enumerate(copies, len(shapes)):
            say(f"copies of {pages} page{'s' if pages > 1 else ''}", done, total)
            self._pools = self._store.warm(self._pools, pages)
        self._warm_rows()
        say("done", total, total)

    def dispatch(self, plan: StepPlan) -> None:
        """See `Runner.dispatch`."""
        started_s = time.perf_counter()
        if plan.saves:
            self._store.save(self._pools, plan.saves, plan.number)
        if plan.loads:
            self._pools = self._store.load(self._pools, plan.loads, plan.number)
        if plan.admissions:
            self._admit(plan.admissions)
        runs = [self._start(dispatch) for dispatch in self._packer.pack(plan)]
        self._in_flight.append(_Step(plan, runs, started_s))

    def collect(self) -> StepResult:
        """See `Runner.collect`. Raises IndexError when nothing is in flight.

        Pages that earlier steps saved reach the host's memory here, while the device computes this step.
        """
        plan, runs, started_s = self._in_flight.popleft()
        self._store.settle(plan.number)
        token_ids = np.zeros(len(plan.slices), np.int32)
        finite = np.ones(len(plan.slices), bool)
        logprobs: dict[int, TokenLogprobs] = {}
        scored: dict[int, list[TokenLogprobs]] = {}
        for run in runs:
            if run.tokens is not None:
                tokens, indices = np.asarray(run.tokens), list(run.dispatch.slices)
                token_ids[indices] = tokens[: len(indices), 0]
                finite[indices] = tokens[: len(indices), 1] != 0
                logprobs |= self._read_logprobs(plan, run, tokens)
            if run.prompt_scores is not None:
                self._read_scores(plan, run.dispatch, run.prompt_scores, scored)
        if runs:
            jax.block_until_ready(runs[-1].done)  # whether or not anything was drawn
        else:
            self._store.wait(plan.number)
        return StepResult(plan.number, token_ids, finite, logprobs, scored, time.perf_counter() - started_s)

    def _start(self, dispatch: Dispatch) -> _Run:
        computed = self._compute(dispatch)
        prompt_scores = None
        if dispatch.score_ids is not None:
            prompt_scores = self._programs.score(self._programs.leaves, computed.hidden, dispatch.score_ids)
        if not dispatch.samples:
            return _Run(dispatch, None, None, prompt_scores, computed.logits)
        picked = self._pick(dispatch, computed)
        return _Run(dispatch, picked.tokens, picked.scores, prompt_scores, picked.tokens)

    def _compute(self, dispatch: Dispatch) -> Computed:
        computed = self._programs.compute(self._programs.leaves, self._pools, self._state.last_token, dispatch.rows)
        self._pools = computed.pools
        return computed

    def _pick(self, dispatch: Dispatch, computed: Computed) -> Picked:
        picked = self._programs.pick(computed.logits, self._state, dispatch.rows[:, :HEADER])
        self._state = picked.state
        return picked

    def _read_logprobs(self, plan: StepPlan, run: _Run, tokens: np.ndarray) -> dict[int, TokenLogprobs]:
        wanted = [
            (row, index, top)
            for row, index in enumerate(run.dispatch.slices)
            if plan.slices[index].sample and (top := self._top_logprobs[plan.slices[index].slot]) is not None
        ]
        if not wanted:
            return {}
        scores = jax.device_get(run.scores)
        return {index: _logprobs_at(scores, row, int(tokens[row, 0]), top) for row, index, top in wanted}

    def _read_scores(
        self, plan: StepPlan, dispatch: Dispatch, scores: Scores, scored: dict[int, list[TokenLogprobs]]
    ) -> None:
        assert dispatch.score_ids is not None
        index = dispatch.source
        top = self._top_logprobs[plan.slices[index].slot] or 0
        values = jax.device_get(scores)
        scored.setdefault(index, []).extend(
            _logprobs_at(values, row, int(dispatch.score_ids[row]), top) for row in range(dispatch.scored)
        )

    def _admit(self, admissions: Sequence[Admission]) -> None:
        rows: list[tuple[int, SamplingParams]] = []
        for admission in admissions:
            rows.append((admission.slot, admission.sampling))
            self._top_logprobs[admission.slot] = admission.sampling.top_logprobs
        for packed in pack_rows(rows, self._sizes.max_sequences, self._spec.vocab):
            self._state = load_rows(self._state, packed)
        for admission in admissions:
            if admission.sampling.penalised:
                self._count(admission.slot, admission.prompt_ids, output=False)
                self._count(admission.slot, admission.output_ids, output=True)

    def _count(self, slot: int, ids: Sequence[int], *, output: bool) -> None:
        for packed in pack_ids(slot, ids, output=output, vocab=self._spec.vocab):
            self._state = count_ids(self._state, packed)

    def _warm_shape(self, shape: Shape) -> None:
        dispatch = self._packer.padding(shape)
        computed = self._compute(dispatch)
        if shape.queries > 1:
            token_ids = np.zeros(shape.rows * shape.queries, np.int32)
            jax.block_until_ready(self._programs.score(self._programs.leaves, computed.hidden, token_ids))
        jax.block_until_ready(self._pick(dispatch, computed).tokens)

    def _warm_rows(self) -> None:
        spare = self._sizes.max_sequences
        for packed in pack_rows([(spare, SamplingParams(max_tokens=1))], spare, self._spec.vocab):
            self._state = load_rows(self._state, packed)
        self._count(spare, (0,), output=False)
        jax.block_until_ready(self._state)


def _logprobs_at(scores: Scores, row: int, token_id: int, top: int) -> TokenLogprobs:
    return TokenLogprobs(
        token_id,
        float(scores.logprob[row]),
        tuple(scores.top_ids[row, :top].tolist()),
        tuple(scores.top_logprobs[row, :top].tolist()),
    )
