from __future__ import annotations

import math

import pytest

from andes_jax.scheduling.limits import SchedulerLimits

GOOD = {"max_sequences": 4, "max_model_len": 64, "step_tokens": 32, "prefill_chunk": 16, "page_tokens": 4}


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_sequences", 0), ("max_model_len", 0), ("step_tokens", 3), ("prefill_chunk", 0), ("page_tokens", 0)]
    + [("max_preempt", -1), ("warmup_steps", -1), ("step_tokens", 10**30), ("preempt_share", -1.0)]
    + [("preempt_share", math.inf), ("realtime_aim_s", -1.0), ("realtime_aim_s", math.nan)],
)
def test_bounds_that_cannot_work_are_named(name, value):
    SchedulerLimits(**GOOD)
    with pytest.raises(ValueError, match=name):
        SchedulerLimits(**{**GOOD, name: value})
