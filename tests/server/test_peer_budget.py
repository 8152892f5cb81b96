"""What a peer may disturb."""

from __future__ import annotations

import h2.events
import pytest

from server.hypercorn_repairs.peer_budget import ANSWERED, BURST, CHEAP, RATE, PeerBudget


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def event(kind: type[h2.events.Event], **attributes: object) -> h2.events.Event:
    """An event whatever its constructor wants, which differs by release."""
    made = kind.__new__(kind)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def reset(remote: bool = True) -> h2.events.Event:
    return event(h2.events.StreamReset, stream_id=1, remote_reset=remote)


def spent(budget: PeerBudget, frame: h2.events.Event, answered: bool = False, most: int = 10_000) -> int:
    """How many such events are allowed."""
    for count in range(most):
        if not budget.allows(frame, answered=answered):
            return count
    return most


@pytest.mark.parametrize(
    ("frame", "answered", "allowed"),
    [
        (reset(), False, BURST),
        (reset(), True, BURST / ANSWERED),
        (reset(remote=False), False, 10_000),
        (event(h2.events.PingReceived), False, BURST / CHEAP),
        (event(h2.events.WindowUpdated), False, 10_000),
        (event(h2.events.DataReceived), False, 10_000),
    ],
)
def test_a_burst_is_bounded_by_what_it_costs(frame, answered, allowed):
    assert spent(PeerBudget(Time()), frame, answered) == pytest.approx(allowed, abs=1)


def test_the_budget_grows_back_with_time_and_not_past_its_size():
    clock = Time()
    budget = PeerBudget(clock)
    spent(budget, reset())
    clock.now_s = 1.0
    assert spent(budget, reset()) == pytest.approx(RATE, abs=2)
    clock.now_s = 10_000.0
    assert spent(budget, reset()) == pytest.approx(BURST, abs=1)


def test_refusals_count():
    budget = PeerBudget(Time())
    for _ in range(int(BURST) + 1):
        budget.charge_refusal()
    assert not budget.allows(event(h2.events.DataReceived), answered=False)
