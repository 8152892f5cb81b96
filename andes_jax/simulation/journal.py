"""What became of every request of a simulation, noted down as its steps end."""

from __future__ import annotations

import numpy as np

from andes_jax.request import FinishReason
from andes_jax.scheduling.sequence import Sequence
from andes_jax.workload.arrival import Arrival
from andes_jax.workload.outcome import UNFINISHED, Outcome


class Record:
    """One request from its arrival to its end. Moments are on the simulation's clock."""

    __slots__ = ("_loose", "_pieces", "arrival", "finish", "preemptions", "sequence", "waited_s")

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.sequence: Sequence | None = None  # while the scheduler has it
        self.finish: str = UNFINISHED
        self.waited_s: float | None = None  # as in Outcome
        self.preemptions = 0
        self._loose: list[float] = []  # moments of the latest tokens
        self._pieces: list[np.ndarray] = []  # of those before

    def token(self, moment_s: float) -> None:
        """One more output token."""
        self._loose.append(moment_s)

    def tokens(self, moments_s: np.ndarray) -> None:
        """One more output token at each of these moments [k], which the record shares with its caller."""
        if self._loose:
            self._pieces.append(np.array(self._loose))
            self._loose = []
        self._pieces.append(moments_s)

    def end(self, finish: FinishReason) -> None:
        """The request is over; its sequence is let go."""
        self.finish = finish
        sequence = self.sequence
        self.sequence = None
        if sequence is not None:
            self.preemptions = sequence.preempt_count + sequence.yields
            if sequence.first_run_s is not None:
                self.waited_s = sequence.first_run_s - self.arrival.arrived_s

    def outcome(self) -> Outcome:
        """What its reader got."""
        times = np.concatenate([*self._pieces, np.array(self._loose, np.float64)]) - self.arrival.arrived_s
        return Outcome(self.arrival, times, self.finish, self.waited_s, self.preemptions)
