from __future__ import annotations

from andes_jax.request import Tier
from tests.fakes import make_request


def test_pages_lost_are_counted_when_idle(serve):
    served = serve()
    served.pool.allocate(1)
    served.pool.live -= 1
    served.engine.start()
    assert served.engine.stop(20)
    assert served.engine.statistics().invariant_failures == 1


def test_statistics_while_running(serve):
    served = serve(policy="three_tier", slots=2)
    seen = []

    def sink(events):
        seen.append(served.engine.statistics())
        served.inbox(events)

    for index in range(5):
        served.engine.submit(make_request(f"r{index}", range(9), 20, tier=Tier.STREAMING), sink)
    served.engine.start()
    assert served.engine.stop(20)
    first = seen[0]
    assert first.running[Tier.STREAMING] == 2 and first.waiting[Tier.STREAMING] == 3 and first.slots_free == 0
    assert first.pages_free + first.pages_cached + first.pages_live == first.pages_total == 63
    assert seen[-1].prefix_hit_tokens == 3 * 8 and seen[-1].preemptions == 0
    assert first.host_s + seen[-1].host_s > 0 and seen[-1].device_s == 0.001
    steps = [one.steps for one in seen]
    assert steps == sorted(steps) and steps[-1] > 20
