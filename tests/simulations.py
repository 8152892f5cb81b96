"""Small simulations whose every moment can be computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from andes_jax.clock import VirtualClock
from andes_jax.memory.pool import PagePool
from andes_jax.request import QoeTarget, Request, SamplingParams, Tier
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.known_times import KnownTimes
from andes_jax.simulation.loop import Simulation
from andes_jax.simulation.runner import STOP_TOKEN
from andes_jax.workload.arrival import Arrival


class LinearTimes:
    """A second a step, and so much for each token, position and page."""

    def __init__(self, step=1.0, decode=0.0, context=0.0, prefill=0.0, page=0.0) -> None:
        self.step, self.decode, self.context, self.prefill, self.page = step, decode, context, prefill, page

    def seconds(self, work: StepWork) -> float:
        prefill = sum(tokens for tokens, _ in work.prefills)
        decodes = self.step + self.decode * work.decodes + self.context * work.decode_context
        return decodes + self.prefill * prefill + self.page * work.copied_pages

    def decode_seconds(self, decodes: int, contexts: np.ndarray) -> np.ndarray:
        return self.step + self.decode * decodes + self.context * contexts


def arrive(at: float, prompt: int = 4, output: int = 3, *, tier=Tier.STREAMING, qoe=None, leaves=None) -> Arrival:
    return Arrival(at, prompt, output, tier, qoe, leaves)


def request_of(index: int, arrival: Arrival) -> Request:
    """Asks for far more than the reply has, so that it ends by the stop token."""
    sampling = SamplingParams(arrival.output_tokens + 10, seed=index, stop_ids=(STOP_TOKEN,))
    return Request(f"r{index}", (0,) * arrival.prompt_tokens, sampling, arrival.tier, arrival.qoe, arrival.arrived_s)


def exact_request_of(index: int, arrival: Arrival) -> Request:
    """Asks for as many tokens as the reply has."""
    sampling = SamplingParams(arrival.output_tokens, seed=index)
    return Request(f"r{index}", (0,) * arrival.prompt_tokens, sampling, arrival.tier, arrival.qoe, arrival.arrived_s)


def simulation(
    arrivals: Sequence[Arrival], *, policy="fcfs", pages=65, slots=8, step_tokens=32, chunk=16, page_tokens=4,
    host_pages=0, max_preempt=3, times=None, requests=request_of, **options,
) -> Simulation:  # fmt: skip
    times = times or LinearTimes()
    limits = SchedulerLimits(slots, 512, step_tokens, chunk, page_tokens, max_preempt)
    scheduler = Scheduler(
        create_policy(policy, max_model_len=512), PagePool(pages), None, limits,
        host_pages=host_pages, times=KnownTimes(times, times.page),
    )  # fmt: skip
    return Simulation(scheduler, VirtualClock(), times, arrivals, requests, **options)


READER = QoeTarget(1.0, 5.0)
