from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.policies.sjf_oracle import ShortestJobFirst
from andes_jax.scheduling.sequence import Sequence
from tests.fakes import make_request
from tests.unit.scheduling.parts import at, columns


def test_the_least_work_goes_first_with_prompts_at_a_tenth():
    policy = ShortestJobFirst()
    those = columns(
        [Tier.BATCH, Tier.REALTIME, Tier.STREAMING, Tier.BATCH],
        remaining=[20, 21, 5, 5], to_compute=[0, 0, 200, 150], order=[3, 2, 1, 0],
    )  # fmt: skip
    assert policy.admit_order(those, at(0.0)).tolist() == [3, 0, 1, 2]
    assert policy.admit_order(those, at(1e6), 2).tolist() == [3, 0], "waiting does not count"
    assert policy.keep_order(those, at(0.0)).tolist() == [3, 2, 0, 1], "whoever runs has its prompt behind it"
    assert policy.explain(those, at(0.0))["remaining"].tolist() == [20, 21, 5, 5]


def test_nobody_who_runs_is_disturbed():
    policy = ShortestJobFirst()
    running = columns([Tier.BATCH], remaining=9000)
    assert policy.victims(columns([Tier.REALTIME]), running, at(1e6, used=1.0)).tolist() == []
    one = Sequence(make_request("a", [1], 1), 1)
    assert not policy.preempts and not policy.overtakes(one, one, 1e6)
