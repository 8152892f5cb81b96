from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.memory.pool import PagePool
from andes_jax.prediction.lengths import LengthHistory
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.ledger import Ledger
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request

PAGE = 4


class ShortReplies(LengthHistory):
    """Everybody is expected to end at once, so that only what may be needed counts."""

    def remaining(self, predicted, generated, limit):
        return 0.0 * generated + self.tokens

    tokens = 1.0


class Machine:
    """A guarantee over a pool, and sequences as far as it looks at them."""

    def __init__(self, total: int, max_preempt: int = 1) -> None:
        limits = SchedulerLimits(9, 512, 9, 9, PAGE, max_preempt)
        self.ledger = Ledger(ShortReplies())
        self.owner = Guarantee(limits, Paging(PagePool(total + 1), None, PAGE), self.ledger)
        self._made = 0

    def claim(self, needed: int, held: int, preempt_count: int = 1) -> Sequence:
        """One that holds so many pages and may need so many more."""
        self._made += 1
        sequence = Sequence(make_request(f"r{self._made}", [1], (needed + held) * PAGE), self._made)
        self.ledger.enter(sequence)
        sequence.pages, sequence.preempt_count = list(range(held)), preempt_count
        return sequence


def can_all_end(total: int, claims: list[tuple[int, int]]) -> bool:
    """Whether some order lets each (needed, held) take what it needs and give all back. Every order is tried."""
    for order in itertools.permutations(claims):
        left = total - sum(held for _, held in claims)
        for needed, held in order:
            if left < 0 or needed > left:
                break
            left += held
        else:
            return True
    return not claims


def test_by_hand():
    machine = Machine(10)
    one = machine.claim(5, 3)
    # 10 pages; two hold 3 and need 5 more: the 4 left finish neither. One that needs 4 would do, and then 7 are left.
    assert not machine.owner.may_seat(machine.claim(8, 0), 3, [one])
    assert machine.owner.may_seat(machine.claim(7, 0), 3, [one])
    four = machine.claim(5, 4)
    assert not machine.owner.may_grow(one, [one, four]), "2 left, and 4 and 5 wanted"
    machine.owner.begin()
    assert machine.owner.may_grow(one, [one, machine.claim(2, 4)]), "the other ends with the 2 left, and gives back 6"


def test_others_do_not_count_and_are_not_held_back():
    machine = Machine(4, max_preempt=2)
    free, bound = machine.claim(95, 4, preempt_count=1), machine.claim(0, 4, 2)
    assert not machine.owner.covers(free)
    assert machine.owner.covers(bound) and machine.owner.covers(machine.claim(1, 1, 3))
    assert machine.owner.may_seat(free, 4, [bound]) and machine.owner.may_grow(free, [free, bound])
    assert machine.owner.may_seat(machine.claim(4, 0, 2), 1, [free]), "what others hold can be had"


def test_with_no_preemption_allowed_everybody_is_covered():
    machine = Machine(9, max_preempt=0)
    assert machine.owner.may_seat(machine.claim(9, 0, 0), 1, [])
    assert not machine.owner.may_seat(machine.claim(9, 0, 0), 3, [machine.claim(6, 3, 0)])


def test_those_that_are_expected_not_to_fit_beside_each_other_are_not_started_together():
    machine = Machine(20)
    machine.ledger.predictor.tokens = 34.0  # with its prompt of one, 9 pages and part of another
    running = machine.claim(5, 1)
    assert not machine.owner.may_seat(machine.claim(6, 0), 1, [running]), "though both could end one after the other"
    assert machine.owner.may_seat(machine.claim(6, 0), 1, []), "one may always try"
    assert machine.owner.may_seat(machine.claim(6, 0), 1, [machine.claim(5, 1, preempt_count=0)])
    machine.ledger.predictor.tokens = 20.0
    assert machine.owner.may_seat(machine.claim(6, 0), 1, [running])


CLAIM = st.tuples(st.integers(0, 6), st.integers(1, 5), st.sampled_from([0, 1, 1, 1, 2]))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 16), st.lists(CLAIM, max_size=5), CLAIM)
def test_the_answer_is_that_of_trying_every_order(total, others, asking):
    machine = Machine(total)
    running = [machine.claim(*each) for each in others]
    covered = [(needed, held) for needed, held, count in others if count >= 1]
    needed, held, _ = asking
    grows = machine.claim(needed + 1, held)
    assert machine.owner.may_grow(grows, [*running, grows]) == can_all_end(total, [*covered, (needed, held + 1)])
    seated = machine.owner.may_seat(machine.claim(needed + held, 0), held, running)
    safe = can_all_end(total, [*covered, (needed, held)])
    assert seated <= safe
    if not covered or 1.5 * (len(covered) + 1) < 0.85 * total:  # they are expected to fit: a page and a half each
        assert seated == safe


@given(
    st.integers(4, 20),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=6),
    st.permutations(range(6)),
)
def test_who_was_refused_a_page_speaks_for_all_who_need_as_many_or_more(total, claims, order):
    """In a safe state, those asked one after the other are answered as each would be alone."""
    machine = Machine(total)
    running = [machine.claim(needed, held) for needed, held in claims]
    if sum(held for _, held in claims) > total or not can_all_end(total, claims):
        return
    machine.owner.begin()
    for index in order:
        if index < len(running) and claims[index][0] > 0:
            together = machine.owner.may_grow(running[index], running)
            machine_alone = Guarantee(machine.owner._limits, machine.owner._paging, machine.ledger)
            assert together == machine_alone.may_grow(running[index], running)
