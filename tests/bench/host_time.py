"""Host time per step: everything Python does between two device steps, with a runner that computes nothing.

The real scheduler, packing, text and event delivery run for a full batch of decodes; the runner packs each plan and
returns made-up tokens at once. Run: python -m tests.bench.host_time
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import threading
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from andes_jax.clock import WallClock
from andes_jax.engine import Engine
from andes_jax.events import TokenEvent
from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.request import Request, SamplingParams
from andes_jax.runtime.pack import Packer
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.plan import StepPlan, StepResult
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.scheduler import Scheduler

PAGE_TOKENS = 64


class InstantRunner:
    """Packs like the real runner and draws the token after the last one, without a device."""

    def __init__(self, sequences: int, table_width: int) -> None:
        self._packer = Packer(Ladder.for_limits(sequences, 256, lone_row=True), sequences, table_width)
        self._plans: deque[StepPlan] = deque()
        self.step_starts_s: list[float] = []
        self.full_batch = sequences

    def dispatch(self, plan: StepPlan) -> None:
        if len(plan.slices) == self.full_batch and all(part.count == 1 for part in plan.slices):
            self.step_starts_s.append(time.perf_counter())
        self._packer.pack(plan)
        self._plans.append(plan)

    def collect(self) -> StepResult:
        plan = self._plans.popleft()
        tokens = np.full(len(plan.slices), 1000 + plan.number % 20000, np.int32)
        return StepResult(plan.number, tokens, np.ones(len(plan.slices), bool))

    def reset(self) -> None:
        self._plans.clear()


def measure(sequences: int, tokens: int, stop: tuple[str, ...], policy: str) -> dict[str, float]:
    """Milliseconds of host time per step with `sequences` running, over about `tokens` steps."""
    table = open_checkpoint().tokenizer().table
    limits = SchedulerLimits(sequences, 4096, 512, 256, PAGE_TOKENS)
    prefix = PrefixCache(PAGE_TOKENS)
    pool = PagePool(1 + sequences * (4096 // PAGE_TOKENS), prefix)
    runner = InstantRunner(sequences, 4096 // PAGE_TOKENS)
    scheduler = Scheduler(create_policy(policy, max_model_len=4096), pool, prefix, limits)
    engine = Engine(scheduler, runner, table, WallClock(), max_waiting=sequences)
    gc.collect()
    gc.freeze()  # as the program does once it is ready
    engine.start()
    left, finished = sequences, threading.Event()

    def sink(events: Sequence[TokenEvent]) -> None:
        nonlocal left
        left -= sum(event.finish is not None for event in events)
        if not left:
            finished.set()

    rng = np.random.default_rng(0)
    for index in range(sequences):
        prompt = tuple(rng.integers(1000, 20000, 256).tolist())
        engine.submit(Request(str(index), prompt, SamplingParams(tokens, temperature=0.0), stop=stop), sink)
    if not finished.wait(300):
        raise RuntimeError("the engine did not finish")
    engine.stop(5)
    gaps_ms = np.diff(runner.step_starts_s) * 1e3
    return {
        "steps": len(gaps_ms),
        "median_ms": round(float(statistics.median(gaps_ms)), 3),
        "p99_ms": round(float(np.quantile(gaps_ms, 0.99)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--policy", default="three_tier")
    arguments = parser.parse_args()
    for name, stop in (("no stop strings", ()), ("two stop strings", ("\n\nUser:", "END"))):
        figures = measure(arguments.sequences, arguments.tokens, stop, arguments.policy)
        print(json.dumps({"sequences": arguments.sequences, "case": name, **figures}))


if __name__ == "__main__":
    main()
