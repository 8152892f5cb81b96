"""andes_jax.commands.study: options become a study, or an error that says what to do."""

from __future__ import annotations

import pytest

from andes_jax.commands.study import DEFAULT_DURATION_S, make_study, own_demand
from andes_jax.failure import UserError
from andes_jax.request import Tier


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    rows = [f"{index * 2}.0,{100 + index},{20 + index}" for index in range(50)]
    path.write_text("arrived_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def lengths(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("conversation,turn,prompt_tokens,output_tokens\n1,0,17,73\n2,0,62,448\n")
    return path


def test_options_reach_workload_machine_and_run(trace):
    study = make_study(
        trace, start=10.0, end=50.0, tiers="realtime=1,batch=3", readers="8", ttft=2.0, cancel_share=0.1, scale=2.0,
        limit_tokens=400, profile="a10g:smollm2-135m", kv_tokens=5000, host_kv_tokens=640, max_sequences=9,
        max_model_len=1234, predict="0.6",
    )  # fmt: skip
    workload, options = study.workload, study.options
    assert (workload.start_s, workload.end_s, workload.duration_s, workload.process) == (10.0, 50.0, None, None)
    assert workload.tiers == ((Tier.REALTIME, 0.25), (Tier.BATCH, 0.75))
    assert (workload.readers.tokens_per_s, workload.readers.first_token_s) == (8.0, 2.0)
    assert (workload.cancelled, workload.length_scale, workload.max_tokens) == (0.1, 2.0, 400)
    assert (study.profile.name, study.profile.kv_tokens) == ("a10g:smollm2-135m", 5000)
    assert (options.host_kv_tokens, options.max_sequences, options.max_model_len, options.predict) == (
        640, 9, 1234, "0.6",
    )  # fmt: skip
    assert own_demand(study) == (pytest.approx(20 / 38), pytest.approx(20 / 38))


def test_lengths_alone_need_arrivals(lengths):
    with pytest.raises(UserError, match=r"lengths.csv holds lengths without arrivals; add --arrivals poisson"):
        make_study(lengths)
    study = make_study(lengths, arrivals="gamma:2")
    assert study.workload.duration_s == DEFAULT_DURATION_S and study.workload.process is not None
    assert make_study(lengths, arrivals="poisson", duration=30.0).workload.duration_s == 30.0
    assert own_demand(study) == (None, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"predict": "sometimes"}, "give none, oracle"),
        ({"profile": "h300"}, "a100-40gb"),
        ({"tiers": "gold=1"}, "realtime=0.7"),
        ({"readers": "slow"}, "paper, fast, none"),
        ({"arrivals": "poison"}, "poisson, gamma:CV"),
        ({"kv_tokens": 3}, "hold no page"),
    ],
)
def test_what_makes_no_sense_is_told(trace, options, said):
    with pytest.raises(UserError, match=said):
        make_study(trace, **options)
