from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.memory.pool import PagePool
from andes_jax.scheduling.guarantee import Guarantee
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.paging import Paging

PAGE = 4


@dataclass(eq=False)
class Claim:
    """A sequence as far as the guarantee looks at it."""

    goal: int
    held: int
    preempt_count: int = 1
    pages: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pages = list(range(self.held))


def guarantee(total: int, max_preempt: int = 1) -> Guarantee:
    return Guarantee(SchedulerLimits(9, 512, 9, 9, PAGE, max_preempt), Paging(PagePool(total + 1), None, PAGE))


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
    # 10 pages; two hold 3 and need 5 more: the 4 left finish neither. One that holds 4 and needs 4 more would do.
    owner = guarantee(10)
    running = [Claim(goal=8 * PAGE, held=3)]
    assert not owner.may_seat(Claim(8 * PAGE, 0), 3, running)
    assert owner.may_seat(Claim(7 * PAGE, 0), 3, running), "3 + 4 is all, and then 8 fit"
    assert not owner.may_seat(Claim(7 * PAGE, 0), 4, [Claim(goal=8 * PAGE, held=3)] * 2)
    assert not owner.may_grow(running[0], [*running, Claim(goal=9 * PAGE, held=4)])


def test_others_do_not_count_and_are_not_held_back():
    owner = guarantee(4, max_preempt=2)
    free = Claim(99 * PAGE, 4, preempt_count=1)
    assert not owner.covers(free) and owner.covers(Claim(1, 1, preempt_count=2)) and owner.covers(Claim(1, 1, 3))
    assert owner.may_seat(free, 4, [Claim(4 * PAGE, 4, 2)]) and owner.may_grow(free, [free, Claim(4 * PAGE, 4, 2)])
    assert owner.may_seat(Claim(4 * PAGE, 0, 2), 1, [free]), "what others hold can be had"


def test_with_no_preemption_allowed_everybody_is_covered():
    owner = guarantee(4, max_preempt=0)
    assert owner.may_seat(Claim(3 * PAGE, 0, 0), 1, [])
    assert not owner.may_seat(Claim(4 * PAGE, 0, 0), 1, [Claim(4 * PAGE, 1, 0)] * 3)


CLAIM = st.tuples(st.integers(0, 6), st.integers(0, 5), st.sampled_from([0, 1, 1, 1, 2]))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 14), st.lists(CLAIM, max_size=5), CLAIM)
def test_the_answer_is_that_of_trying_every_order(total, others, asking):
    owner = guarantee(total)
    running = [Claim((needed + held) * PAGE, held, count) for needed, held, count in others]
    covered = [(needed, held) for needed, held, count in others if count >= 1]
    needed, held, _ = asking
    new = Claim((needed + held) * PAGE, 0)
    assert owner.may_seat(new, held, running) == can_all_end(total, [*covered, (needed, held)])
    grows = Claim((needed + held + 1) * PAGE, held)
    assert owner.may_grow(grows, [*running, grows]) == can_all_end(total, [*covered, (needed, held + 1)])
