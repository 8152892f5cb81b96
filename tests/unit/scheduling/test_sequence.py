from __future__ import annotations

import pytest

from andes_jax.scheduling.sequence import Sequence, State
from tests.fakes import make_request


def test_a_new_sequence_waits_with_nothing_computed():
    sequence = Sequence(make_request("a", [1, 2, 3], 4, stop_ids=(9,)), order=7)
    assert (sequence.state, sequence.order, sequence.known, sequence.computed) == (State.WAITING, 7, 3, 0)
    assert sequence.generated == 0 and sequence.output_ids == ()
    sequence.check()


@pytest.mark.parametrize(("max_tokens", "goal"), [(0, 3), (1, 3), (2, 4), (10, 12)])
def test_the_last_token_is_drawn_but_never_computed(max_tokens, goal):
    assert Sequence(make_request("a", [1, 2, 3], max_tokens), 1).goal == goal


@pytest.mark.parametrize(
    ("cached", "computed", "known"),
    [(1, 0, 3), (0, 4, 3), (0, 0, 2), (0, 0, 99)],
)
def test_counts_out_of_order_are_seen(cached, computed, known):
    sequence = Sequence(make_request("a", [1, 2, 3], 4), 1)
    sequence.cached, sequence.computed, sequence.known = cached, computed, known
    with pytest.raises(AssertionError):
        sequence.check()
