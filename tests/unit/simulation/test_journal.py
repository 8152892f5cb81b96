"""andes_jax.simulation.journal"""

from __future__ import annotations

import numpy as np

from andes_jax.request import FinishReason
from andes_jax.scheduling.sequence import Sequence
from andes_jax.simulation.journal import Record
from andes_jax.workload.outcome import UNFINISHED
from tests.simulations import arrive, request_of


def test_tokens_keep_their_order_however_they_are_noted():
    record = Record(arrive(10.0))
    record.token(11.0)
    record.token(12.0)
    record.tokens(np.array([13.0, 14.0]))
    record.tokens(np.array([15.0]))
    record.token(16.0)
    assert record.outcome().token_times_s.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert record.outcome().finish == UNFINISHED


def test_an_end_keeps_what_the_scheduler_knew():
    record = Record(arrive(10.0))
    record.sequence = sequence = Sequence(request_of(0, record.arrival), 1)
    sequence.first_run_s, sequence.preempt_count, sequence.yields = 10.5, 2, 1
    record.end(FinishReason.STOP)
    assert record.sequence is None
    outcome = record.outcome()
    assert (outcome.finish, outcome.waited_s, outcome.preemptions) == ("stop", 0.5, 3)
    assert outcome.token_times_s.shape == (0,)


def test_a_refused_request_never_waited():
    record = Record(arrive(10.0))
    record.end(FinishReason.REFUSED)
    outcome = record.outcome()
    assert (outcome.finish, outcome.waited_s, outcome.preemptions) == ("refused", None, 0)
