"""Time of Scheduler.plan() and commit() while everybody who runs draws a token and those who wait lack pages.

The real scheduler, pool, prefix cache and ledger under three_tier, without a device: results are made up at once, and
as in the engine a plan is made before the result of the one before it is committed. Between steps the pool is kept so
full that those who run can grow, but nobody else can start. Run: python -m tests.bench.plan_time
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.request import QoeTarget, Request, SamplingParams, Tier
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.plan import StepPlan, StepResult
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.workload.readers import Readers

PAGE_TOKENS = 64
STEP_S = 0.025  # that a step is pretended to last
WARMUP_STEPS = 60  # after which learnt step times steer
MODEL_LEN = 8192
REPLY_TOKENS = 4096  # asked for; nobody gets that far
LONGEST_PROMPT = MODEL_LEN - REPLY_TOKENS
TOKEN, STOP_TOKEN = 1000, 1
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
SIZES = "16:48,64:256,256:1000,1024:4096,4096:16384"  # running:waiting


class SteadyDecode:
    """`running` sequences that draw beside `waiting` ones that cannot start, from prompts of various lengths."""

    def __init__(self, running: int, waiting: int, policy: str, blocked_by: str) -> None:
        random = np.random.default_rng(0)
        count = running + waiting
        slots = count if blocked_by == "pages" else running
        limits = SchedulerLimits(slots, MODEL_LEN, max(8192, slots), 4096, PAGE_TOKENS)
        prefix = PrefixCache(PAGE_TOKENS)
        pool = PagePool(1 + (running + waiting // 4) * (MODEL_LEN // PAGE_TOKENS), prefix)
        self._running = running
        self._spare = running if blocked_by == "pages" else pool.total // 2  # pages that are left free
        self._taken: list[int] = []  # by nobody in particular, so that no more are free
        self._plans: deque[StepPlan] = deque()
        self.scheduler = Scheduler(create_policy(policy, max_model_len=MODEL_LEN), pool, prefix, limits)
        self.now = 0.0
        prompts = np.minimum(np.exp(random.normal(5.5, 1.0, count)).astype(int) + 1, LONGEST_PROMPT).tolist()
        # Fast enough that nobody gets so far ahead that it could give up its place.
        speeds = Readers("fast").speeds(count, random).tolist()
        tiers = random.choice(3, size=count, p=(0.7, 0.2, 0.1)).tolist()
        words = tuple(random.integers(TOKEN, 20000, 2 * LONGEST_PROMPT).tolist())
        starts = random.integers(0, LONGEST_PROMPT, count).tolist()
        for index in range(count):
            if index == running:
                self._settle()
            # Those who wait are of all tiers. Those who run are of the first, or they would have to give way.
            tier = Tier.REALTIME if index < running else Tier(tiers[index])
            target = None if tier is Tier.BATCH else QoeTarget(1.0, speeds[index])
            prompt = words[starts[index] : starts[index] + prompts[index]]
            sampling = SamplingParams(REPLY_TOKENS, stop_ids=(STOP_TOKEN,))
            self.scheduler.add(Request(str(index), prompt, sampling, tier, target, self.now), self.now)
        for _ in range(WARMUP_STEPS):
            self.turn()

    def _settle(self) -> None:
        roster = self.scheduler.roster
        while roster.waiting or any(sequence.generated < 2 for sequence in roster.running):
            self.turn(fill=False)

    def turn(self, fill: bool = True, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float, bool]:
        """One step: seconds of plan() and of commit(), and whether the plan looked at those who wait."""
        scheduler, plans = self.scheduler, self._plans
        if fill:
            self._fill()
        looked_s = scheduler.admitter.next_look_s
        began = clock()
        plan = scheduler.plan(self.now)
        plan_s = clock() - began
        looked = scheduler.admitter.next_look_s != looked_s
        plans.append(plan)
        self.now += STEP_S
        if len(plans) < 2:
            return plan_s, 0.0, looked
        done = plans.popleft()
        count = len(done.slices)
        result = StepResult(done.number, np.full(count, TOKEN, np.int32), np.ones(count, np.bool_))
        began = clock()
        scheduler.commit(result, self.now, STEP_S)
        return plan_s, clock() - began, looked

    def _fill(self) -> None:
        """Leave just `_spare` pages, of which a newcomer would have to leave one for each who runs."""
        pool = self.scheduler.pool
        surplus = pool.available - self._spare
        if surplus > 0:
            for start, count in pool.allocate(surplus) or ():
                self._taken.extend(range(start, start + count))
        elif surplus < 0:
            pool.release(self._taken[surplus:])
            del self._taken[surplus:]

    def check(self, waiting: int) -> None:
        """Raise RuntimeError when the steps were no steady decodes."""
        roster = self.scheduler.roster
        if (len(roster.running), len(roster.waiting), roster.preemptions) != (self._running, waiting, 0):
            raise RuntimeError(
                f"{len(roster.running)} run, {len(roster.waiting)} wait and {roster.preemptions} lost their place, "
                f"where {self._running} should have run beside {waiting} all the time"
            )


def measure(
    running: int, waiting: int, steps: int, policy: str, blocked_by: str, clock: Callable[[], float]
) -> dict[str, object]:
    """Milliseconds over so many steps."""
    plans, commits, looks = [], [], []
    decode = SteadyDecode(running, waiting, policy, blocked_by)
    gc.collect()
    gc.freeze()  # as the program does once it is ready
    for _ in range(steps):
        plan_s, commit_s, looked = decode.turn(clock=clock)
        plans.append(plan_s * 1e3)
        commits.append(commit_s * 1e3)
        looks.append(looked)
    gc.unfreeze()
    decode.check(waiting)
    planned, looked_at = np.array(plans), np.array(looks, dtype=bool)
    return {
        "running": running,
        "waiting": waiting,
        "steps": len(plans),
        "plan_median_ms": _rounded(np.median(planned)),
        "plan_p99_ms": _rounded(np.quantile(planned, 0.99)),
        "commit_median_ms": _rounded(np.median(commits)),
        "commit_p99_ms": _rounded(np.quantile(commits, 0.99)),
        "plan_us_per_sequence": _rounded(np.median(planned) * 1e3 / (running + waiting)),
        "plan_us_per_running": _rounded(np.median(planned) * 1e3 / running),
        "commit_us_per_running": _rounded(np.median(commits) * 1e3 / running),
        # Plans that look at those who wait are fewer and take longer.
        "looks": _rounded(looked_at.mean()),
        "plan_with_look_median_ms": _rounded(np.median(planned[looked_at])) if looked_at.any() else None,
        "plan_without_look_median_ms": _rounded(np.median(planned[~looked_at])) if not looked_at.all() else None,
    }


def growth(first: dict[str, object], last: dict[str, object]) -> dict[str, float]:
    """How many times as long, for how many times as many sequences; below the latter: less than linear."""

    def ratio(name: str) -> float:
        return float(last[name]) / float(first[name])  # type: ignore[arg-type]

    sequences = (last["running"] + last["waiting"]) / (first["running"] + first["waiting"])  # type: ignore[operator]
    names = ("plan_median_ms", "plan_p99_ms", "commit_median_ms")
    return {"sequences": round(sequences, 2), **{name: round(ratio(name), 2) for name in names}}


def show_profile(running: int, waiting: int, steps: int, policy: str, blocked_by: str, lines: int) -> None:
    """Print where plan() spends its time; the profiler itself makes calls of Python functions dearer."""
    decode = SteadyDecode(running, waiting, policy, blocked_by)
    plan, profiler = decode.scheduler.plan, cProfile.Profile()
    decode.scheduler.plan = lambda now: profiler.runcall(plan, now)  # type: ignore[method-assign]
    for _ in range(steps):
        decode.turn()
    decode.check(waiting)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(lines)


def _rounded(value: float) -> float:
    return round(float(value), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="RUNNING:WAITING, with commas between them, ascending")
    parser.add_argument("--steps", type=int, default=400, help="that are measured of each size")
    parser.add_argument("--policy", default="three_tier")
    parser.add_argument("--blocked-by", choices=("pages", "slots"), default="pages", help="what those who wait lack")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: leave out what other programs take")
    parser.add_argument("--profile", type=int, metavar="LINES", help="show instead where the first size's time goes")
    arguments = parser.parse_args()
    sizes = [(int(one), int(other)) for one, _, other in (part.partition(":") for part in arguments.sizes.split(","))]
    blocked_by, policy, steps = arguments.blocked_by, arguments.policy, arguments.steps
    if arguments.profile is not None:
        show_profile(*sizes[0], steps, policy, blocked_by, arguments.profile)
        return
    figures = []
    for running, waiting in sizes:
        figures.append(measure(running, waiting, steps, policy, blocked_by, CLOCKS[arguments.clock]))
        print(json.dumps(figures[-1]), flush=True)
    if len(figures) > 1:
        print(json.dumps({"growth": growth(figures[0], figures[-1])}))


if __name__ == "__main__":
    main()
