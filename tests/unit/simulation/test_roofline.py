"""Roofline step times: against figures worked out by hand, and how they grow."""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.scheduling.step_time import StepWork
from andes_jax.simulation.hardware import CHIPS, MODELS
from andes_jax.simulation.roofline import LAYER_S, STEP_S, RooflineTimes, kv_capacity


def times(chip: str, model: str) -> RooflineTimes:
    return RooflineTimes(CHIPS[chip], MODELS[model], 16)


H200 = times("h200", "llama-3-8b")
A100 = times("a100-40gb", "llama-2-13b")


def test_a_large_decode_step_moves_its_bytes_at_the_chip_s_bandwidth():
    """At 256 sequences products take a little longer than reading the weights, so bytes alone are a lower bound."""
    seconds = H200.seconds(StepWork(256, 256 * 1024))
    floor = (2 * 7.5e9 + 256 * 1024 * 131072) / (4.8e12 * 0.8)
    assert floor < seconds < 1.3 * floor
    assert seconds == pytest.approx(15.6e-3, rel=0.02)


def test_a_lone_decode_reads_the_weights_once():
    model = MODELS["llama-3-8b"]
    read = 2 * (model.layer_parameters + model.head_parameters) + 500 * model.kv_token_bytes
    expected = read / (4.8e12 * 0.8) + STEP_S + 32 * LAYER_S
    assert H200.seconds(StepWork(1, 500)) == pytest.approx(expected)


def test_a_13b_model_on_a_small_a100_decodes_as_in_the_papers():
    """About 22 ms for the weights, and half a microsecond or so for each token in the cache."""
    assert A100.seconds(StepWork(1, 400)) == pytest.approx(22.3e-3, rel=0.02)
    assert A100.seconds(StepWork(24, 24 * 400)) == pytest.approx(28e-3, rel=0.03)


def test_prefill_is_bound_by_compute():
    model, chip = MODELS["llama-2-13b"], CHIPS["a100-40gb"]
    at_peak_s = 2048 * 2 * model.layer_parameters / chip.operations_per_s
    assert 1.3 * at_peak_s < A100.seconds(StepWork(prefills=((2048, 0),))) < 1.6 * at_peak_s


def test_a_chunk_rides_along_with_decodes_for_less_than_it_costs_alone():
    decodes, chunk = StepWork(32, 32 * 400), StepWork(prefills=((256, 0),))
    both = A100.seconds(StepWork(32, 32 * 400, ((256, 0),)))
    assert max(A100.seconds(decodes), A100.seconds(chunk)) < both < A100.seconds(decodes) + A100.seconds(chunk)


def test_a_prompt_costs_the_same_attention_in_one_piece_or_two():
    """Both chunks are large enough to be bound by compute, so only the overhead of a second step is added."""
    whole = A100.seconds(StepWork(prefills=((2048, 0),)))
    halves = A100.seconds(StepWork(prefills=((1024, 0),))) + A100.seconds(StepWork(prefills=((1024, 1024),)))
    assert halves - whole == pytest.approx(STEP_S + 40 * LAYER_S, rel=0.1)


def test_a_step_outlasts_its_copies():
    page_s = 16 * 819_200 / (31.5e9 * 0.8)
    assert A100.copy_page_s == pytest.approx(page_s)
    decode = StepWork(1, 400)
    assert A100.seconds(decode._replace(copied_pages=4)) == A100.seconds(decode)
    assert A100.seconds(decode._replace(copied_pages=1000)) == pytest.approx(1000 * page_s)
    assert A100.seconds(StepWork(copied_pages=3)) == pytest.approx(3 * page_s)
    assert A100.seconds(StepWork()) == 0.0


@pytest.mark.parametrize("model", [H200, A100])
def test_stretches_of_decodes_take_what_single_steps_take(model):
    contexts = np.array([40, 4000, 400_000])
    for decodes in (1, 40, 300):
        singly = [model.seconds(StepWork(decodes, context)) for context in contexts.tolist()]
        assert model.decode_seconds(decodes, contexts) == pytest.approx(singly, rel=1e-12)


def test_more_of_anything_takes_longer():
    base = StepWork(20, 8000, ((100, 50),))
    seconds = A100.seconds(base)
    assert A100.seconds(base._replace(decode_context=9000)) > seconds
    assert A100.seconds(base._replace(decodes=200)) > seconds
    assert A100.seconds(base._replace(prefills=((100, 3000),))) > seconds
    assert A100.seconds(base._replace(prefills=((400, 50),))) > seconds


def test_what_is_left_beside_the_weights_holds_the_cache():
    assert kv_capacity(CHIPS["a100-40gb"], MODELS["llama-2-13b"]) == pytest.approx(14_000, rel=0.02)
    assert kv_capacity(CHIPS["h200"], MODELS["llama-3-8b"]) == pytest.approx(900_000, rel=0.02)
    assert kv_capacity(CHIPS["a10g"], MODELS["llama-2-13b"]) < 0
