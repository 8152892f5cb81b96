"""andes_jax.simulation.agenda"""

from __future__ import annotations

import math

from andes_jax.request import FinishReason
from andes_jax.scheduling.sequence import Sequence
from andes_jax.simulation.agenda import Agenda
from andes_jax.simulation.journal import Record
from tests.simulations import arrive, request_of


def records(*arrivals):
    made = [Record(each) for each in arrivals]
    for index, record in enumerate(made):
        record.sequence = Sequence(request_of(index, record.arrival), index)
    return made


def test_arrivals_come_once_in_order_of_time():
    agenda = Agenda(records(arrive(2.0), arrive(0.5), arrive(2.0)))
    assert agenda.next_s == 0.5
    assert list(agenda.arrivals(0.4)) == []
    assert list(agenda.arrivals(0.5)) == [1]
    assert agenda.next_s == 2.0
    assert list(agenda.arrivals(9.0)) == [0, 2]
    assert agenda.next_s == math.inf and list(agenda.arrivals(9.0)) == []


def test_departures_follow_arrivals():
    agenda = Agenda(records(arrive(0.0, leaves=3.0), arrive(1.0, leaves=1.0), arrive(5.0)))
    assert list(agenda.arrivals(1.0)) == [0, 1]
    assert agenda.next_s == 2.0
    assert list(agenda.departures(2.5)) == [1]
    assert list(agenda.departures(3.0)) == [0]
    assert agenda.next_s == 5.0


def test_nobody_waits_for_the_departure_of_one_who_has_ended():
    kept = records(arrive(0.0, leaves=3.0))
    agenda = Agenda(kept)
    assert list(agenda.arrivals(0.0)) == [0]
    assert agenda.next_s == 3.0
    kept[0].end(FinishReason.STOP)
    assert agenda.next_s == math.inf
