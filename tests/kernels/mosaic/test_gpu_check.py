"""The check for a real GPU, without one: what it compares with, what it measures, and what people read of it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS, DecodeSpec, PrefillSpec
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.mosaic.gpus import GPUS
from kernels_pallas.paged_attention.mosaic.tuning import Shape
from scripts.gpu_check import limits, numerics, rivals, speed, step, summary, timing
from scripts.gpu_check.__main__ import PARTS, environment
from scripts.gpu_check.inputs import attention, exact, make_inputs
from scripts.gpu_check.kernels import tuned
from scripts.gpu_check.part import items_of
from scripts.gpu_check.results import Results
from scripts.gpu_check.setting import REHEARSED, Setting, as_ampere, distinct, measured_limits, setting
from tests.kernels.mosaic.cases import expected, make_case, relative_error

DECODE, PREFILL = REHEARSED
LIMITS = {"copy_bytes_per_s": 4e12, "read_bytes_per_s": 5e12, "matmul_flops": 8e14}
HERE = Setting(GPUS["h100"], REHEARSED, True, LIMITS)


# What is compared with, and what is judged.


@pytest.mark.parametrize("name", ["decode-gemma-2-2b-1x32768-page16", "decode-smollm2-135m-16x8192-page32"])
def test_float64_attention_is_the_specification(name):
    heads = SPECS[name].heads
    options = dataclasses.replace(heads.options, window=heads.window and 20)
    case = make_case(spans=[(30, 7)], kv_heads=2, group=3)
    keys, values = np.asarray(case.pool[:, 1], np.float64)[:, np.asarray(case.table[0])].reshape(2, -1, 64)
    queries = np.asarray(case.queries[0, :, 1], np.float64)
    got = attention(queries, keys, values, 30 + np.arange(7), options)
    assert relative_error(got, expected(case, options)[0, :, 1]) < 1e-6


@pytest.mark.parametrize("spec", REHEARSED, ids=lambda spec: spec.name)
@pytest.mark.parametrize("pages", ["scattered", "runs", "mixed"])
def test_inputs_are_rows_of_pages_of_their_own(spec, pages):
    inputs = make_inputs(dataclasses.replace(spec, rows=4), 64, ragged=True, pages=pages)
    table = np.asarray(inputs.table)
    assert len(np.unique(table)) == table.size and table.min() == 1
    assert (inputs.first + inputs.count <= spec.context).all() and (inputs.count == 0).any()
    assert inputs.first[0] + inputs.count[0] == spec.context
    steps = np.diff(table.reshape(-1, 4), axis=1) == 1
    assert {"runs": steps.all(), "scattered": not steps.all(1).any(), "mixed": steps.all(1)[::2].all()}[pages]


def test_padding_of_heads_is_zeros():
    inputs = make_inputs(DECODE, 64, ragged=False)
    assert inputs.pool.shape[-1] == 64 and np.asarray(inputs.pool)[..., :64].any(-1).all()
    wide = make_inputs(dataclasses.replace(DECODE, model="gemma-3-4b"), 64, ragged=False)
    assert wide.queries.shape[-1] == 256 and wide.first.tolist() == [127, 127]


@pytest.mark.parametrize("spec", REHEARSED, ids=lambda spec: spec.name)
def test_right_and_wrong_results_are_told_apart(spec):
    inputs = make_inputs(dataclasses.replace(spec, rows=4), 64, ragged=True)
    out = np.zeros(inputs.queries.shape, np.float32)
    for row in range(4):
        for head in range(3):
            offsets = np.arange(inputs.count[row])
            if len(offsets):
                found = exact(inputs, row, head, offsets)
                out[(row, head) if out.ndim == 4 else (row, offsets, head)] = found[0] if out.ndim == 4 else found
    assert numerics.errors(inputs, jnp.asarray(out))["right"]
    assert not numerics.errors(inputs, jnp.asarray(out * 1.01))["right"]
    broken = out.copy()
    broken[0] = np.nan
    assert not numerics.errors(inputs, jnp.asarray(broken))["right"]
    if isinstance(spec, DecodeSpec):
        broken = out.copy()
        broken[2] = 1.0  # the row without keys
        assert not numerics.errors(inputs, jnp.asarray(broken))["right"]


def test_dense_rivals_compute_the_same():
    for spec in REHEARSED:
        inputs = make_inputs(spec, 64, ragged=False)
        queries, keys, values, seen = rivals.gathered(inputs)
        scale = spec.heads.options.scale
        wide = (part.astype(jnp.float32) for part in (queries, keys, values))
        out = jax.nn.dot_product_attention(*wide, mask=seen, scale=scale)
        out = np.asarray(out, np.float64).reshape(*out.shape[:2], 3, 3, 64)
        want = exact(inputs, spec.rows - 1, 2, np.arange(out.shape[1]))
        assert relative_error(out[-1, :, 2], want) < 1e-5


# Rates.


def test_bytes_and_operations_of_a_step():
    llama, mistral = SPECS["decode-llama-3-8b-16x8192-page32"], SPECS["decode-mistral-7b-16x8192-page32"]
    assert isinstance(llama, DecodeSpec) and isinstance(mistral, DecodeSpec)
    assert speed.kv_bytes(llama) == 2 * speed.kv_bytes(mistral) == 16 * 8192 * 8 * 128 * 2 * 2
    assert speed.operations(PrefillSpec("smollm2-135m", 2, 3, 5, 16)) == 4 * 2 * 9 * 64 * (3 + 4 + 5)
    assert step.bytes_moved(step.LLAMA_3_8B, step.Load(0, 0)) == pytest.approx(15.0e9, rel=0.01)
    found = speed.rate(llama, 1e-3, HERE)
    assert found["of_copy"] == pytest.approx(16 * 8192 * 8 * 128 * 4 / 1e-3 / 4e12) and not found["maybe_cached"]
    assert speed.rate(llama, 1e-3, dataclasses.replace(HERE, limits={}))["of_copy"] is None


def test_time_is_that_of_one_turn_of_many():
    seen = []

    def turn(carry):
        return carry + jax.pure_callback(
            lambda: (seen.append(0), np.float32(1))[1], jax.ShapeDtypeStruct((), "float32")
        )

    taken = timing.seconds(turn, jnp.float32(0), turns=4, repeats=2)
    assert 0 < taken < 10 and len(seen) == 4 * (1 + 2)
    assert timing.calls(1.0) == 2 and timing.calls(1e-3) == 20 and timing.calls(1e-9) == 512


def test_limits_are_measured_and_found_again(tmp_path):
    results = Results(tmp_path / "found.json")
    assert measured_limits(tmp_path / "none.json") == {} == measured_limits(results.path)
    for name, item in limits.items(dataclasses.replace(HERE, limits={})).items():
        results.add("limits", name, item())
    assert set(measured_limits(results.path)) == set(LIMITS)
    assert all(value > 0 for value in measured_limits(results.path).values())


def test_the_step_runs_and_says_what_is_missing(monkeypatch):
    found = step.measure(step.TINY, step.Load(2, 20), HERE)
    assert found["seconds"] > 0 and found["graphs"] and found["of_least"] > 0
    monkeypatch.setattr(step.attention, "pool_shape", lambda *_: (_ for _ in ()).throw(ValueError("no such thing")))
    assert step.measure(step.TINY, step.Load(2, 20), HERE) == {"not_available": "no such thing"}


def test_graphs_are_turned_off_for_one_part(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=d")
    assert environment("step", rehearsal=False)["XLA_FLAGS"] == "--xla_dump_to=d"
    assert step.graphs_wanted()
    monkeypatch.setenv("XLA_FLAGS", environment("step-without-graphs", rehearsal=False)["XLA_FLAGS"])
    assert not step.graphs_wanted()


# The device and what runs on it.


def test_the_device_is_one_that_the_decoder_takes(tmp_path, monkeypatch):
    kinds = dict(platform="gpu", compute_capability="9.0", core_count=132)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(device_kind="NVIDIA H200", **kinds)])
    assert setting(tmp_path / "none.json", rehearsal=False).gpu is GPUS["h200"]
    for capability in ("8.9", "8.7", "10.0"):
        other = SimpleNamespace(device_kind="NVIDIA X", **kinds | {"compute_capability": capability})
        monkeypatch.setattr(jax, "devices", lambda device=other: [device])
        with pytest.raises(ValueError, match=rf"NVIDIA X has CUDA capability {capability}; .* 8\.0, 8\.6, 9\.0"):
            setting(tmp_path / "none.json", rehearsal=False)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="cpu is no NVIDIA GPU"):
        setting(tmp_path / "none.json", rehearsal=False)
    assert as_ampere(GPUS["h200"]).family == "ampere"


def test_specs_of_equal_heads_are_checked_once():
    found = distinct(tuple(SPECS.values()))
    assert {spec.model for spec in found} == {spec.model for spec in SPECS.values()} - {"qwen3-8b"}
    assert len({(spec.heads, dataclasses.replace(spec, model="")) for spec in SPECS.values()}) == len(found)


def test_short_time_leaves_no_model_s_decode_or_prefill_out():
    specs = distinct(tuple(SPECS.values()))
    names = list(numerics.items(dataclasses.replace(HERE, specs=specs)))
    assert len(names) == len(set(names)) == 2 * len(specs)
    wanted = {f"{family} {spec.name.split('-')[0]}-{spec.model}-" for family in HERE.families for spec in specs}
    begun = [next(start for start in wanted if name.startswith(start)) for name in names[: len(wanted)]]
    assert set(begun) == wanted
    assert [name.split()[0] for name in names[: len(wanted)]] == sorted(
        (name.split()[0] for name in names[: len(wanted)]), reverse=True
    )


def test_every_part_has_items_and_cuts_are_other_ones(tmp_path):
    for part in PARTS:
        assert items_of(part, tmp_path / "none.json", rehearsal=True)
    assert set(setting(tmp_path / "none.json", rehearsal=True).families) == {"hopper", "ampere"}
    for spec in SPECS.values():
        own = tuned(spec, GPUS["h100"])
        others = list(speed.other_cuts(own, spec))
        assert own not in others and len(set(others)) == len(others) >= 2
        assert all(cut.block_tokens % spec.page_tokens == 0 and cut.stages >= 2 for cut in others)


# What people read.


def test_best_cuts_become_rows():
    spec = "decode-smollm2-135m-1x32768-page16"
    prefill = "prefill-smollm2-135m-1x512-of-8192-page16"
    items = {
        "hopper rule": {"spec": spec, "config": "DecodeConfig(splits=8, block_tokens=64, stages=4)", "seconds": 1.0},
        "hopper same": {"spec": prefill, "config": repr(PrefillConfig(64, 128, 2)), "seconds": 1.0},
        "ampere rule": {"spec": spec, "config": repr(DecodeConfig(4, 64, 2)), "seconds": 0.1},
    }
    cuts = {
        "hopper splits": {"spec": spec, "config": repr(DecodeConfig(16, 64, 4)), "seconds": 0.7},
        "hopper stages": {"spec": spec, "config": repr(DecodeConfig(8, 64, 3)), "seconds": 0.6},
        "hopper block": {"spec": spec, "config": repr(DecodeConfig(8, 128, 2)), "error": "does not fit"},
        "hopper prefill": {"spec": prefill, "config": repr(PrefillConfig(64, 64, 2)), "seconds": 0.99},
    }
    timed, others = ({name: found | {"pages": "scattered"} for name, found in part.items()} for part in (items, cuts))
    rows = summary.tuning_rows(timed, others, "hopper")
    assert rows == {"DECODE": {Shape(64, 3, 16): DecodeConfig(1, 64, 3)}, "PREFILL": {}}
    text = summary.tuning_text(rows, "h200")
    assert "DECODE['h200']:\n    Shape(64, 3, 16): DecodeConfig(1, 64, 3)," in text and "the rule's cuts" in text


def test_lines_say_what_matters():
    assert "WRONG, relative error nan" in summary.line(
        "numerics", "a", {"right": False, "relative_error": "nan", "largest_error": "nan"}
    )
    fast = {"seconds": 1e-4, "bytes_per_s": 3e12, "of_copy": 0.75, "of_read": None, "maybe_cached": True}
    assert summary.line("decode", "b", fast).endswith("100.0 us; 3e+03 GB/s; 75.0 % of copy; perhaps from the cache")
    assert "ERROR no room" in summary.line("tuning", "c", {"error": "no\nroom"})
