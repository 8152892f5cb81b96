"""A runner whose tokens can be computed by hand, with the real one's lag, and what goes with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from andes_jax.events import TokenEvent, TokenLogprobs
from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.request import FinishReason, QoeTarget, Request, SamplingParams, Tier
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.plan import PageCopy, Slice, StepPlan, StepResult
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.scheduler import Advance, Scheduler
from andes_jax.scheduling.step_time import StepTimeModel
from andes_jax.text.token_table import TokenTable

VOCABULARY = 97


def next_token(context: Sequence[int], seed: int = 0, vocabulary: int = VOCABULARY) -> int:
    """The token the fake model draws after `context`: every token and its place matter."""
    weighed = sum((place + 1) * token for place, token in enumerate(context))
    return (weighed * 31 + 7 * len(context) + 13 * seed) % vocabulary


def expected_ids(request: Request, vocabulary: int = VOCABULARY) -> tuple[int, ...]:
    """The reply's ids when the request is computed alone, without stop strings."""
    sampling = request.sampling
    context = list(request.prompt_ids)
    for _ in range(sampling.max_tokens):
        context.append(next_token(context, sampling.seed, vocabulary))
        if context[-1] in sampling.stop_ids:
            break
    return tuple(context[len(request.prompt_ids) :])


def letters(vocabulary: int = VOCABULARY) -> TokenTable:
    """Token i is the character U+0100+i, so text shows ids."""
    return TokenTable([chr(0x100 + index).encode() for index in range(vocabulary)])


def text_of(ids: Sequence[int]) -> str:
    """What `letters` makes of ids."""
    return "".join(chr(0x100 + token) for token in ids)


def make_request(
    id: str, prompt: Sequence[int], max_tokens: int, *, tier: Tier = Tier.STREAMING, arrived_s: float = 0.0,
    stop: tuple[str, ...] = (), qoe: QoeTarget | None = None, **sampling,
) -> Request:  # fmt: skip
    params = SamplingParams(max_tokens, **sampling)
    return Request(id, tuple(prompt), params, tier=tier, arrived_s=arrived_s, stop=stop, qoe=qoe)


class _Slot:
    def __init__(self, ids: list[int], sampling: SamplingParams) -> None:
        self.ids = ids  # what the sequence is known to hold, draws included
        self.sampling = sampling


class FakeRunner:
    """Stores token ids in pages as the real one stores keys and values, and draws from what it reads there.

    A wrong block table, a missing recompute, a wrong page copy or a write into a shared page so becomes a wrong token
    or an entry in `violations`. Steps are computed when collected, in order.
    """

    def __init__(
        self, pages: int, page_tokens: int, slots: int, *, vocabulary: int = VOCABULARY, host_pages: int = 0
    ) -> None:
        self.pages = pages
        self.host_pages = host_pages
        self.page_tokens = page_tokens
        self.slots = slots
        self.vocabulary = vocabulary
        self.violations: list[str] = []
        self.plans: list[StepPlan] = []
        self.resets = 0
        self.fail_dispatch: Callable[[StepPlan], bool] = lambda plan: False
        self.fail_collect: Callable[[StepPlan, list[list[int]]], bool] = lambda plan, contexts: False
        self.fail_reset: Callable[[], bool] = lambda: False
        self.not_finite: Callable[[list[int]], bool] = lambda context: False
        self._queue: deque[StepPlan] = deque()
        self._clear()

    def _clear(self) -> None:
        self._queue.clear()
        self._tokens = [[None] * self.page_tokens for _ in range(self.pages)]  # type: list[list[int | None]]
        self._host: dict[int, list[int | None]] = {}  # what was saved since the last reset
        self._slots: dict[int, _Slot] = {}

    def dispatch(self, plan: StepPlan) -> None:
        if self.fail_dispatch(plan):
            raise RuntimeError("injected: dispatch")
        if len(self._queue) >= 2:
            self.violations.append("more than two steps in flight")
        self._queue.append(plan)
        self.plans.append(plan)

    def reset(self) -> None:
        if self.fail_reset():
            raise RuntimeError("injected: reset")
        self.resets += 1
        self._clear()

    def collect(self) -> StepResult:
        plan = self._queue.popleft()
        self._copy_pages(plan)
        for admission in plan.admissions:
            if not 0 <= admission.slot < self.slots:
                self.violations.append(f"slot {admission.slot} does not exist")
            self._slots[admission.slot] = _Slot([*admission.prompt_ids, *admission.output_ids], admission.sampling)
        if len({part.slot for part in plan.slices}) != len(plan.slices):
            self.violations.append("two slices of one slot in one step")
        self._check_writes(plan)
        contexts = [self._write(part) for part in plan.slices]
        if self.fail_collect(plan, contexts):
            raise RuntimeError("injected: collect")
        return self._draw(plan)

    def _copy_pages(self, plan: StepPlan) -> None:
        for device, host in self._copies(plan.saves, "saved", "host"):
            self._host[host] = list(self._tokens[device])
        for device, host in self._copies(plan.loads, "loaded", "device"):
            if host in self._host:
                self._tokens[device] = list(self._host[host])
            else:
                self.violations.append(f"host page {host} is loaded, but was never saved")

    def _copies(self, copies: Sequence[PageCopy], done: str, into: str) -> list[tuple[int, int]]:
        """The pairs (device page, host page) that can be copied at all; the faults of the others are noted."""
        pairs = []
        for copy in copies:
            if len(copy.device_pages) != len(copy.host_pages):
                self.violations.append(f"{len(copy.device_pages)} pages are {done} as {len(copy.host_pages)}")
            for device, host in zip(copy.device_pages, copy.host_pages, strict=False):
                if 0 < device < self.pages and 0 <= host < self.host_pages:
                    pairs.append((device, host))
                else:
                    self.violations.append(f"device page {device} and host page {host} are {done}, but do not exist")
        targets = [host if into == "host" else device for device, host in pairs]
        for page in {page for page in targets if targets.count(page) > 1}:
            self.violations.append(f"{into} page {page} is {done} twice in one step")
        return pairs

    def _check_writes(self, plan: StepPlan) -> None:
        """Nobody writes a page that is in another one's table, and no table is too short or holds page 0."""
        users: dict[int, set[int]] = {}
        for part in plan.slices:
            if 0 in part.pages or len(part.pages) * self.page_tokens < part.first + part.count:
                self.violations.append(f"bad table {part.pages} for {part.first}+{part.count}")
            for page in part.pages:
                users.setdefault(page, set()).add(part.slot)
        for part in plan.slices:
            for position in range(part.first, part.first + part.count):
                page = part.pages[position // self.page_tokens]
                if users[page] != {part.slot}:
                    self.violations.append(f"page {page} is written while shared by slots {users[page]}")

    def _write(self, part: Slice) -> list[int]:
        slot = self._slots.get(part.slot)
        if slot is None:
            self.violations.append(f"slot {part.slot} was never admitted")
            return []
        ids = part.token_ids if part.token_ids is not None else (slot.ids[-1],)
        if part.token_ids is None and part.first != len(slot.ids) - 1:
            self.violations.append(
                f"slot {part.slot} feeds back a token at {part.first}, drawn for {len(slot.ids) - 1}"
            )
        if list(ids) != slot.ids[part.first : part.first + part.count]:
            self.violations.append(f"slot {part.slot} is given other tokens than its own at {part.first}")
        for offset, token in enumerate(ids):
            page, place = divmod(part.first + offset, self.page_tokens)
            self._tokens[part.pages[page]][place] = token
        return self._read(part, slot)

    def _read(self, part: Slice, slot: _Slot) -> list[int]:
        end = part.first + part.count
        stored = [self._tokens[page][place] for page in part.pages for place in range(self.page_tokens)][:end]
        if stored != slot.ids[:end]:
            self.violations.append(f"slot {part.slot} reads {stored} where {slot.ids[:end]} should be")
        if part.sample and (end != len(slot.ids) or part.generated > end):
            self.violations.append(f"slot {part.slot} draws at {end} but knows {len(slot.ids)} tokens")
        return [token if token is not None else 0 for token in stored]

    def _draw(self, plan: StepPlan) -> StepResult:
        count = len(plan.slices)
        ids, finite = np.zeros(count, np.int32), np.ones(count, bool)
        logprobs: dict[int, TokenLogprobs] = {}
        scores: dict[int, list[TokenLogprobs]] = {}
        contexts = [self._read(part, self._slots[part.slot]) for part in plan.slices]
        for index, (part, context) in enumerate(zip(plan.slices, contexts, strict=True)):
            slot = self._slots[part.slot]
            if part.score_ids is not None:
                scores[index] = [
                    TokenLogprobs(token, -float(part.first + 1 + offset)) for offset, token in enumerate(part.score_ids)
                ]
            if not part.sample:
                continue
            finite[index] = not self.not_finite(context)
            token = next_token(context, slot.sampling.seed, self.vocabulary)
            slot.ids.append(token)
            ids[index] = token
            if slot.sampling.top_logprobs is not None:
                logprobs[index] = TokenLogprobs(token, -float(len(context)))
        return StepResult(plan.number, ids, finite, logprobs, scores, device_s=0.001)


class Inbox:
    """A sink that keeps what it is told, and checks that nothing follows a finish."""

    def __init__(self) -> None:
        self.events: dict[str, list[TokenEvent]] = {}
        self.batches: list[list[TokenEvent]] = []

    def __call__(self, batch: Sequence[TokenEvent]) -> None:
        self.batches.append(list(batch))
        for event in batch:
            self.events.setdefault(event.request_id, []).append(event)

    def ids(self, request_id: str) -> tuple[int, ...]:
        return tuple(token for event in self.events.get(request_id, []) for token in event.token_ids)

    def text(self, request_id: str) -> str:
        return "".join(event.text for event in self.events.get(request_id, []))

    def finishes(self, request_id: str) -> list[FinishReason]:
        return [event.finish for event in self.events.get(request_id, []) if event.finish is not None]


class Rig:
    """A scheduler over a fake runner, driven step by step, one step ahead like the engine."""

    def __init__(
        self, *, policy: str = "fcfs", pages: int = 64, page_tokens: int = 4, slots: int = 4, step_tokens: int = 32,
        prefill_chunk: int = 16, max_model_len: int = 64, max_preempt: int = 3, prefix: bool = True,
        host_pages: int = 0, reserve: int = 0, times: StepTimeModel | None = None, **limits: float,
    ) -> None:  # fmt: skip
        cache = PrefixCache(page_tokens) if prefix else None
        self.pool = PagePool(pages, cache, reserve=reserve)
        self.limits = SchedulerLimits(
            slots, max_model_len, step_tokens, prefill_chunk, page_tokens, max_preempt, **limits
        )
        chosen = create_policy(policy, max_model_len=max_model_len)
        self.scheduler = Scheduler(chosen, self.pool, cache, self.limits, host_pages=host_pages, times=times)
        self.runner = FakeRunner(pages, page_tokens, slots, host_pages=host_pages)
        self.now = 0.0
        self.in_flight = 0
        self.got: dict[str, list[int]] = {}
        self.advances: dict[str, list[Advance]] = {}

    def add(self, *requests: Request) -> None:
        for request in requests:
            self.scheduler.add(request, self.now)

    def plan(self) -> StepPlan:
        plan = self.scheduler.plan(self.now)
        if plan.slices:
            self.runner.dispatch(plan)
            self.in_flight += 1
        return plan

    def commit(self) -> list[Advance]:
        self.in_flight -= 1
        advances = self.scheduler.commit(self.runner.collect(), self.now)
        for advance in advances:
            self.got.setdefault(advance.sequence.id, []).extend(advance.token_ids)
            self.advances.setdefault(advance.sequence.id, []).append(advance)
        return advances

    def step(self) -> StepPlan:
        """Plan one step ahead, and take in the one before."""
        plan = self.plan()
        if self.in_flight == 2 or (self.in_flight and not plan.slices):
            self.commit()
        return plan

    def run(self, steps: int = 1000) -> None:
        """Until nothing is left to do."""
        for _ in range(steps):
            if not self.scheduler.has_work:
                break
            self.step()
        assert not self.scheduler.has_work, "does not come to an end"
        assert self.runner.violations == []
        self.pool.check()
        assert self.pool.live == 0

    def running(self) -> list[str]:
        return [sequence.id for sequence in self.scheduler.roster.running]
