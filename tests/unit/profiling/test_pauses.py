from __future__ import annotations

import gc

from andes_jax.clock import VirtualClock, WallClock
from andes_jax.profiling.pauses import KEPT, CollectorPauses


def test_pauses_count_as_far_as_they_lie_between_two_moments():
    clock = VirtualClock()
    pauses = CollectorPauses(clock)
    for begin, end in ((1.0, 2.0), (4.0, 5.0)):
        clock.advance_to(begin)
        pauses.note("start", {})
        clock.advance_to(end)
        pauses.note("stop", {})
    assert pauses.seconds(0.0, 9.0) == 2.0
    assert pauses.seconds(1.5, 4.25) == 0.75
    assert pauses.seconds(2.0, 4.0) == 0.0


def test_the_real_collector_is_heard_until_the_end():
    clock = WallClock()
    pauses, before = CollectorPauses(clock), list(gc.callbacks)
    began = clock.now()
    pauses.start()
    for _ in range(KEPT + 5):
        gc.collect(0)
    pauses.stop()
    assert gc.callbacks == before
    assert 0 < pauses.seconds(began, clock.now()) <= clock.now() - began
