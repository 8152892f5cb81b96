from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.model.rope import Rope

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
FAMILIES = sorted(path.parent.name for path in GOLDEN.glob("*/golden.npz"))


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_are_those_of_transformers(family):
    spec, golden = open_checkpoint(GOLDEN / family).spec, np.load(GOLDEN / family / "golden.npz")
    np.testing.assert_allclose(
        spec.rope.inverse_frequencies, golden["rope"], rtol=2.5e-7
    )  # two units in the last place
    if "local_rope" in golden:
        assert spec.local_rope is not None
        np.testing.assert_allclose(spec.local_rope.inverse_frequencies, golden["local_rope"], rtol=2.5e-7)
    else:
        assert spec.local_rope is None
        assert spec.rope.attention_factor == pytest.approx(float(golden["attention_factor"]), rel=1e-12)


def test_plain_frequencies():
    rope = Rope.plain(8, 10000.0)
    np.testing.assert_allclose(rope.inverse_frequencies, [1, 0.1, 0.01, 0.001], rtol=1e-6)
    assert rope.attention_factor == 1.0
    assert all(float(np.float32(value)) == value for value in rope.inverse_frequencies)


def test_linear_and_factors_divide():
    plain = np.asarray(Rope.plain(8, 10000.0).inverse_frequencies)
    np.testing.assert_allclose(Rope.linear(8, 10000.0, 4.0).inverse_frequencies, plain / 4, rtol=1e-6)
    scaled = Rope.with_factors(8, 10000.0, [1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(scaled.inverse_frequencies, plain / [1, 2, 4, 8], rtol=1e-6)


def test_llama3_keeps_short_waves_and_divides_long_ones():
    plain = np.asarray(Rope.plain(128, 500000.0).inverse_frequencies)
    rope = Rope.llama3(
        128, 500000.0, factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_max_position=8192
    )
    ratio = plain / np.asarray(rope.inverse_frequencies)
    wavelengths = 2 * math.pi / plain
    np.testing.assert_allclose(ratio[wavelengths < 2048], 1, rtol=1e-6)
    np.testing.assert_allclose(ratio[wavelengths > 8192], 8, rtol=1e-6)
    between = ratio[(wavelengths > 2048) & (wavelengths < 8192)]
    assert len(between) > 3 and (np.diff(between) > 0).all() and between.min() > 1 and between.max() < 8


def test_yarn_keeps_fast_pairs_and_interpolates_slow_ones():
    plain = np.asarray(Rope.plain(128, 1e6).inverse_frequencies)
    rope = Rope.yarn(128, 1e6, factor=4.0, original_max_position=32768)
    ratio = plain / np.asarray(rope.inverse_frequencies)
    rotations = 32768 * plain / (2 * math.pi)
    np.testing.assert_allclose(ratio[rotations > 40], 1, rtol=1e-6)
    np.testing.assert_allclose(ratio[rotations < 0.8], 4, rtol=1e-6)
    assert (np.diff(ratio) > -1e-6).all()
    assert rope.attention_factor == pytest.approx(0.1 * math.log(4) + 1)


def test_yarn_attention_factor():
    def factor_of(**options) -> float:
        return Rope.yarn(
            16, 1e4, factor=options.pop("factor", 4.0), original_max_position=512, **options
        ).attention_factor

    assert factor_of(attention_factor=0.7) == 0.7
    assert factor_of(mscale=1.0, mscale_all_dim=1.0) == 1.0
    assert factor_of(mscale=2.0, mscale_all_dim=1.0) == pytest.approx((0.2 * math.log(4) + 1) / (0.1 * math.log(4) + 1))
    assert factor_of(factor=1.0) == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rope.plain(8, 1.0),
        lambda: Rope.plain(8, math.nan),
        lambda: Rope.linear(8, 10000.0, 0.0),
        lambda: Rope.linear(8, 10000.0, math.inf),
        lambda: Rope.with_factors(8, 10000.0, [1.0, 2.0]),
        lambda: Rope.with_factors(8, 10000.0, [1.0, 2.0, 0.0, 1.0]),
        lambda: Rope.yarn(8, 10000.0, factor=-1.0, original_max_position=64),
        lambda: Rope.llama3(
            8, 1e4, factor=8.0, low_frequency_factor=4.0, high_frequency_factor=4.0, original_max_position=64
        ),
    ],
)
def test_values_that_make_no_sense(make):
    with pytest.raises(ValueError, match="rope"):
        make()
