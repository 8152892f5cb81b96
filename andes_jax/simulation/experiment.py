"""One simulated run: a workload, a machine and a policy give what every reader got."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from andes_jax.clock import VirtualClock
from andes_jax.failure import UsageError
from andes_jax.memory.pool import PagePool
from andes_jax.request import Request, SamplingParams
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.policies.sjf_oracle import ShortestJobFirst
from andes_jax.scheduling.priority import Weights
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.simulation.contender import Contender, parse_contender
from andes_jax.simulation.known_times import KnownTimes
from andes_jax.simulation.loop import Simulation
from andes_jax.simulation.oracles import predictor_of
from andes_jax.simulation.profiles import Profile
from andes_jax.simulation.runner import STOP_TOKEN, TOKEN
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import Outcome, Summary, summarise

REPLY_LIMIT = 2048  # tokens


@dataclass(frozen=True, slots=True)
class Options:
    """What a run has beside workload, machine and policy."""

    predict: str = "none"  # of reply lengths: none, oracle, or the log-noise of a prediction; see oracles
    host_kv_tokens: int = 0  # whose keys and values fit in host memory
    max_sequences: int | None = None  # None: the profile's
    max_model_len: int | None = None  # None: the profile's
    # Tokens a request asks for at most, unless its reply is longer, so that policies do not know how long replies
    # are; None: exactly what it gets, as a load client asks for that wants no reply to end by itself.
    reply_limit: int | None = REPLY_LIMIT
    leap: bool = True  # quiet stretches are taken in as one event


@dataclass(frozen=True, slots=True)
class Figures:
    """A run in numbers."""

    contender: str
    seed: int
    offered_per_s: float  # requests that came, per second
    duration_s: float  # from the first arrival to the last end, of simulated time
    steps: int
    leaps: int  # quiet stretches taken in as one event
    busy: float  # share of the time in which the device computed
    held: float  # share of the cache's pages in use, on average
    preemptions: int
    wall_s: float  # that the simulation took
    summary: dict[str, Summary]  # "all", and each tier by name


@dataclass(frozen=True, slots=True)
class Run:
    """A run: what became of each arrival, in their order, and the whole in numbers."""

    outcomes: list[Outcome]
    figures: Figures


def simulate(
    arrivals: Sequence[Arrival],
    profile: Profile,
    contender: Contender | str,
    options: Options = Options(),
    *,
    seed: int = 0,
) -> Run:
    """Run a workload to its end; all its requests count.

    Args:
        seed: of the errors of predictions; policies and machines have no chance in them.

    Raises:
        UsageError: there are no arrivals, or the policy or the options make no sense.
        SimulationStuck: the scheduler has a defect.
    """
    if not arrivals:
        raise UsageError("a workload without requests cannot be simulated")
    if isinstance(contender, str):
        contender = parse_contender(contender)
    began = time.perf_counter()
    scheduler = create_scheduler(arrivals, profile, contender, options, seed)
    first_s = min(arrival.arrived_s for arrival in arrivals)
    last_s = max(arrival.arrived_s for arrival in arrivals)
    clock = VirtualClock(first_s)
    request_of = _asking(scheduler, options.reply_limit)
    run = Simulation(scheduler, clock, profile.times, arrivals, request_of, host_s=profile.host_s, leap=options.leap)
    outcomes = run.run()
    # Had all been refused, no time would have passed.
    duration_s = max(clock.now() - first_s, 1e-9)
    figures = Figures(
        contender=contender.label,
        seed=seed,
        offered_per_s=len(arrivals) / max(last_s - first_s, 1e-9),
        duration_s=duration_s,
        steps=run.steps,
        leaps=run.leaps,
        busy=run.busy_s / duration_s,
        held=run.held_page_s / (duration_s * scheduler.pool.total),
        preemptions=scheduler.roster.preemptions,
        wall_s=time.perf_counter() - began,
        summary=summarise(outcomes, duration_s),
    )
    return Run(outcomes, figures)


def create_scheduler(
    arrivals: Sequence[Arrival], profile: Profile, contender: Contender, options: Options, seed: int
) -> Scheduler:
    """The engine's scheduler as a contender has it, on a machine as the profile says, without a prefix cache."""
    limits = SchedulerLimits(
        max_sequences=options.max_sequences or profile.max_sequences,
        max_model_len=options.max_model_len or profile.max_model_len,
        step_tokens=max(profile.step_tokens, options.max_sequences or 0),
        prefill_chunk=profile.prefill_chunk,
        page_tokens=profile.page_tokens,
    )
    policy = create_policy(contender.policy, max_model_len=limits.max_model_len, weights=contender.weights(Weights()))
    predict = "oracle" if contender.policy == ShortestJobFirst.name else options.predict
    return Scheduler(
        policy,
        PagePool(profile.pages + 1),
        None,
        contender.limits(limits),
        predictor=predictor_of(predict, arrivals, seed),
        times=KnownTimes(profile.times, profile.copy_page_s),
        host_pages=options.host_kv_tokens // profile.page_tokens,
    )


def _asking(scheduler: Scheduler, reply_limit: int | None) -> Callable[[int, Arrival], Request]:
    """What is asked for. No two prompts have anything in common, so all may be the same where nobody looks."""
    longest = min(scheduler.limits.max_model_len, scheduler.pool.total * scheduler.limits.page_tokens)
    prompts = (TOKEN,) * longest
    stop_ids = () if reply_limit is None else (STOP_TOKEN,)

    def request_of(index: int, arrival: Arrival) -> Request:
        wanted = arrival.output_tokens
        if reply_limit is not None:
            wanted = max(wanted, min(reply_limit, longest - arrival.prompt_tokens))
        prompt = prompts[: arrival.prompt_tokens]
        if len(prompt) < arrival.prompt_tokens:
            prompt = (TOKEN,) * arrival.prompt_tokens
        return Request(
            id=f"request-{index}",
            prompt_ids=prompt,
            sampling=SamplingParams(wanted, seed=index, stop_ids=stop_ids),
            tier=arrival.tier,
            qoe=arrival.qoe,
            arrived_s=arrival.arrived_s,
        )

    return request_of
