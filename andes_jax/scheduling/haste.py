"""Whether a step leaves batch replies out so that somebody's first token comes in time.

They keep their slots and pages, and go on when the first token is out. Readers who are far ahead are not left out: they
could spare it, but where memory is short, what they hold meanwhile costs others more than the time is worth.
"""

from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.draft import Draft
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.sequence import Sequence, State
from andes_jax.scheduling.step_time import StepTimeModel, StepWork

PATIENCE_S = 1.0  # after its arrival, a request that has no token yet is beyond haste
MOST_IN_A_ROW = 8  # steps without those left out, so that they go on whatever comes


class Haste:
    """Knows the realtime requests that have no token yet."""

    def __init__(self, times: StepTimeModel, limits: SchedulerLimits) -> None:
        self._times = times
        self._limits = limits
        self._awaited: list[Sequence] = []
        self._in_a_row = 0

    def expect(self, sequence: Sequence) -> None:
        """A request has come. Those that nobody waits for any more are forgotten, whether or not anybody asks."""
        if sequence.tier is Tier.REALTIME:
            self._forget(sequence.request.arrived_s)
            self._awaited.append(sequence)

    def expects(self, now: float) -> bool:
        """Whether somebody's first token is waited for."""
        self._forget(now)
        return bool(self._awaited) and self._times.ready

    def _forget(self, now: float) -> None:
        if self._awaited:
            self._awaited = [each for each in self._awaited if self._awaits(each, now)]

    @staticmethod
    def _awaits(sequence: Sequence, now: float) -> bool:
        if sequence.state is State.FINISHED or sequence.known > sequence.prompt_length:
            return False
        return now < sequence.request.arrived_s + PATIENCE_S

    @staticmethod
    def sort(running: list[Sequence]) -> tuple[list[Sequence], list[Sequence]]:
        """Those whom a step must serve, and those it may leave out."""
        urgent: list[Sequence] = []
        patient: list[Sequence] = []
        for sequence in running:
            draws = sequence.computed + 1 == sequence.known and sequence.known > sequence.prompt_length
            (patient if draws and sequence.tier is Tier.BATCH else urgent).append(sequence)
        return urgent, patient

    def leaves_out(
        self, draft: Draft, patient: list[Sequence], now: float, in_flight_s: float, *, starting: bool
    ) -> bool:
        """Whether a first token would come too late with the patient in each step until then.

        Those without a slot count only when some may be `starting` in this step.
        """
        awaited = [
            each for each in self._awaited if each.state is State.RUNNING or (starting and each.place is not None)
        ]
        prompts = tuple((each.known - each.computed, each.computed) for each in awaited)
        if not prompts or self._in_a_row == MOST_IN_A_ROW:
            self._in_a_row = 0
            return False
        left_s = min(each.request.arrived_s for each in awaited) + self._limits.realtime_aim_s - now
        decodes, context = draft.decodes + len(patient), draft.context + sum(each.known for each in patient)
        steps = -(-sum(tokens for tokens, _ in prompts) // max(self._limits.step_tokens - decodes, 1))
        others_s = self._times.seconds(StepWork(decodes, context))
        late = in_flight_s + (steps - 1) * others_s + self._times.seconds(StepWork(decodes, context, prompts)) > left_s
        self._in_a_row = self._in_a_row + 1 if late else 0
        return late
