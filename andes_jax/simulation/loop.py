"""The engine's loop without threads and text: the same order of events, under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from andes_jax.clock import VirtualClock
from andes_jax.request import FinishReason, Refusal, Request
from andes_jax.scheduling.pipeline import Pipeline
from andes_jax.scheduling.scheduler import Advance, Scheduler
from andes_jax.simulation.agenda import Agenda
from andes_jax.simulation.journal import Record
from andes_jax.simulation.profiles import MachineTimes
from andes_jax.simulation.runner import SimulatedRunner
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import Outcome

LONGEST_LEAP = 4096  # steps
SHORTEST_LEAP = 2  # steps
LONGEST_DROUGHT = 20_000  # steps without a token, after which nothing is believed to come any more


class SimulationStuck(RuntimeError):
    """There is work, but nothing comes of it: a defect of the scheduler or its policy."""


class Simulation:
    """One run. A turn is what the engine's thread does between two steps: receive, plan, dispatch, collect, commit.

    A stretch of steps in which nobody comes, goes or moves is taken in as one event, with the times of single steps:
    step n+1 has been planned when step n ends, so that whoever comes during step n is first planned for after n+1,
    and the host's work shows only where steps are shorter than it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: VirtualClock,
        times: MachineTimes,
        arrivals: Sequence[Arrival],
        request_of: Callable[[int, Arrival], Request],
        *,
        host_s: float = 0.0,
        leap: bool = True,
    ) -> None:
        """Takes over scheduler and clock.

        Args:
            request_of: what is asked of the scheduler for arrivals[i], with i as its sampling seed; called as it comes.
            host_s: seconds of the host's work for each step.
            leap: whether quiet stretches are taken in as one event; where not, the result is the same.
        """
        self._scheduler = scheduler
        self._clock = clock
        self._times = times
        self._host_s = host_s
        self._leaping = leap
        self._request_of = request_of
        self._records = [Record(arrival) for arrival in arrivals]
        self._live: dict[str, Record] = {}  # by request id
        self._agenda = Agenda(self._records)
        self._runner = SimulatedRunner(clock, times, [arrival.output_tokens for arrival in arrivals])
        self._pipeline = Pipeline(self._runner, clock)
        self._last_token = 0  # the number of steps when the last token came
        self.steps = 0
        self.leaps = 0  # stretches of steps taken in as one event
        self.held_page_s = 0.0  # pages in use, integrated over time

    @property
    def busy_s(self) -> float:
        """Seconds in which the device computed."""
        return self._runner.busy_s

    def run(self) -> list[Outcome]:
        """What became of each arrival, once all have ended. Raises SimulationStuck."""
        scheduler, agenda, clock, pool = self._scheduler, self._agenda, self._clock, self._scheduler.pool
        while True:
            if not scheduler.has_work:
                if agenda.next_s == inf:
                    return [record.outcome() for record in self._records]
                clock.advance_to(agenda.next_s)
            began = clock.now()
            if agenda.next_s <= began:
                self._receive(began)
                if not scheduler.has_work:
                    continue  # whoever came was refused or has left
            if not (self._leaping and self._leap()):
                self._turn()
            self.held_page_s += pool.live * (clock.now() - began)

    def _receive(self, now: float) -> None:
        for index in self._agenda.arrivals(now):
            record = self._records[index]
            request = self._request_of(index, record.arrival)
            try:
                record.sequence = self._scheduler.add(request, now)
            except Refusal:
                record.end(FinishReason.REFUSED)
            else:
                self._live[request.id] = record
        for index in self._agenda.departures(now):
            sequence = self._records[index].sequence
            if sequence is not None and self._scheduler.cancel(sequence.id):
                self._end(sequence.id, FinishReason.CANCELLED)

    def _end(self, request_id: str, finish: FinishReason) -> None:
        self._live.pop(request_id).end(finish)

    def _turn(self) -> None:
        plan = self._scheduler.plan(self._clock.now())
        if plan.slices:
            self._clock.advance(self._host_s)
            self._pipeline.dispatch(plan)
            if not self._pipeline.full:
                return
        elif not self._pipeline:
            raise SimulationStuck(self._stuck("nothing can be planned"))
        self._collect()

    def _collect(self) -> None:
        result, now, step_s = self._pipeline.collect()
        advances = self._scheduler.commit(result, now, step_s)
        self.steps += 1
        if advances:
            self._last_token = self.steps
            self._note(advances, now)
        elif self.steps - self._last_token > LONGEST_DROUGHT:
            raise SimulationStuck(self._stuck(f"{LONGEST_DROUGHT} steps brought no token"))

    def _note(self, advances: list[Advance], now: float) -> None:
        live = self._live
        for advance in advances:
            request_id = advance.sequence.id
            if advance.token_ids:
                live[request_id].token(now)
            if advance.finish is not None:
                self._end(request_id, advance.finish)

    def _leap(self) -> bool:
        """Take in as many steps as go by without a decision; False: there are none, and nothing has been done."""
        scheduler, clock = self._scheduler, self._clock
        now = clock.now()
        if len(self._pipeline) != 1:
            return False
        # One less, for a step is planned before the one before it is committed.
        quiet = min(scheduler.quiet_steps(now), LONGEST_LEAP) - 1
        if quiet < SHORTEST_LEAP:
            return False
        event_s = min(self._agenda.next_s, scheduler.next_look_s)
        first_s = max(now + self._host_s, self._runner.next_end_s)  # when the step in flight is committed
        running = scheduler.roster.running
        live = self._live
        quiet = min(quiet, min(live[s.id].arrival.output_tokens + s.prompt_length - s.known for s in running) - 1)
        if quiet < SHORTEST_LEAP or event_s <= first_s:
            return False
        contexts = sum(s.computed for s in running) + len(running) * np.arange(1.0, quiet + 1)
        seconds = self._times.decode_seconds(len(running), contexts)
        ends = np.cumsum(np.concatenate([[first_s], np.maximum(seconds, self._host_s)]))[1:]
        # The last one may go past the event: the step after it would have been planned before that, too.
        count = min(quiet, int(np.searchsorted(ends, event_s)) + 1)
        if count < SHORTEST_LEAP:
            return False
        clock.advance_to(first_s)
        self._collect()
        ends = ends[:count]
        scheduler.leap(ends)
        for sequence in scheduler.roster.running:
            live[sequence.id].tokens(ends)
        ended_s = float(ends[-1])
        self._runner.occupy(ended_s, float(seconds[:count].sum()))
        self._pipeline.skip_to(ended_s)
        clock.advance_to(ended_s)
        self.steps += count
        self._last_token = self.steps
        self.leaps += 1
        # This step was planned while the one before it ran.
        self._pipeline.dispatch(scheduler.plan(float(ends[-2])))
        return True

    def _stuck(self, what: str) -> str:
        roster = self._scheduler.roster
        sequence = self._scheduler.next_in_line()
        whom = "nobody" if sequence is None else f"{sequence.id} ({sequence.state.name.lower()})"
        return (
            f"{what} at {self._clock.now():.3f} s under {self._scheduler.policy.name}: {len(roster.running)} run, "
            f"{len(roster.live)} live, {self._scheduler.pool.available} pages available, first in line {whom}"
        )
