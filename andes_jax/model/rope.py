"""Rotary position embeddings as data: the inverse frequency of every pair of dimensions, whatever rule made it.

The layout is half-split everywhere: dimension i turns together with dimension i + head_dim / 2.
Frequencies are made in float32, step by step as transformers makes them, since a double-precision table turns long
positions by visibly other angles than the ones the published models were trained and checked with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Rope:
    """Angles of a rotary embedding: position p turns pair i by p * inverse_frequencies[i] radians.

    The constructors raise ValueError for a base or a factor that makes no sense.
    """

    inverse_frequencies: tuple[float, ...]  # head_dim / 2 values, each exact in float32
    attention_factor: float = 1.0  # multiplies both cosine and sine (YaRN)

    @classmethod
    def plain(cls, head_dim: int, theta: float) -> Rope:
        """Frequencies theta^(-2i / head_dim), without scaling."""
        return _rope(_base_frequencies(head_dim, theta))

    @classmethod
    def linear(cls, head_dim: int, theta: float, factor: float) -> Rope:
        """Position interpolation: every frequency is divided by factor."""
        _check_factor(factor)
        return _rope(_base_frequencies(head_dim, theta) / np.float32(factor))

    @classmethod
    def with_factors(cls, head_dim: int, theta: float, factors: Sequence[float]) -> Rope:
        """Each frequency is divided by its own factor, as GGUF stores them in rope_freqs.weight (head_dim / 2 values).

        Another number of factors is a ValueError too.
        """
        divisors = np.asarray(factors, np.float32)
        if divisors.shape != (head_dim // 2,):
            raise ValueError(f"{divisors.size} rope factors for {head_dim // 2} frequencies")
        if not (np.isfinite(divisors).all() and (divisors > 0).all()):
            raise ValueError("rope factors that are not positive numbers")
        return _rope(_base_frequencies(head_dim, theta) / divisors)

    @classmethod
    def llama3(
        cls,
        head_dim: int,
        theta: float,
        *,
        factor: float,
        low_frequency_factor: float,
        high_frequency_factor: float,
        original_max_position: int,
    ) -> Rope:
        """Llama 3.1's rule: long waves are divided by factor, short ones kept, those between are blended."""
        _check_factor(factor)
        if not 0 < low_frequency_factor < high_frequency_factor:
            raise ValueError(f"rope frequency factors {low_frequency_factor}, {high_frequency_factor} are not in order")
        frequencies = _base_frequencies(head_dim, theta)
        wavelengths = np.float32(2 * math.pi) / frequencies
        longest_kept = original_max_position / high_frequency_factor
        shortest_scaled = original_max_position / low_frequency_factor
        blend = (np.float32(original_max_position) / wavelengths - np.float32(low_frequency_factor)) / np.float32(
            high_frequency_factor - low_frequency_factor
        )
        scaled = frequencies / np.float32(factor)
        blended = (1 - blend) * frequencies / np.float32(factor) + blend * frequencies
        between = (wavelengths >= longest_kept) & (wavelengths <= shortest_scaled)
        return _rope(np.where(between, blended, np.where(wavelengths > shortest_scaled, scaled, frequencies)))

    @classmethod
    def yarn(
        cls,
        head_dim: int,
        theta: float,
        *,
        factor: float,
        original_max_position: int,
        attention_factor: float | None = None,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        mscale: float | None = None,
        mscale_all_dim: float | None = None,
        truncate: bool = True,
    ) -> Rope:
        """YaRN (Peng et al. 2023): fast pairs keep their frequency, slow ones are interpolated, with a ramp between.

        attention_factor None gives the paper's 0.1 ln(factor) + 1, or the ratio of the two mscales where both are set.
        """
        _check_factor(factor)
        low = _turning_dimension(beta_fast, head_dim, theta, original_max_position)
        high = _turning_dimension(beta_slow, head_dim, theta, original_max_position)
        if truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head_dim - 1)
        width = high - low if high != low else 0.001
        ramp = np.clip((np.arange(head_dim // 2, dtype=np.float32) - np.float32(low)) / np.float32(width), 0, 1)
        kept_share = 1 - ramp
        powers = _powers(head_dim, theta)
        frequencies = 1 / (np.float32(factor) * powers) * (1 - kept_share) + 1 / powers * kept_share
        if attention_factor is None:
            attention_factor = _yarn_magnitude(factor, mscale, mscale_all_dim)
        return _rope(frequencies, attention_factor)


def _rope(frequencies: np.ndarray, attention_factor: float = 1.0) -> Rope:
    return Rope(tuple(float(f) for f in np.asarray(frequencies, np.float32)), attention_factor)


def _check_factor(factor: float) -> None:
    if not 0 < factor < math.inf:
        raise ValueError(f"rope factor {factor} is not a positive number")


def _powers(head_dim: int, theta: float) -> np.ndarray:
    if not 1 < theta < math.inf:
        raise ValueError(f"rope base {theta} is not a number above 1")
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    # numpy's float32 power is a few units off on some CPUs; rounded from float64 it is the same on all of them
    return np.power(float(np.float32(theta)), exponents.astype(np.float64)).astype(np.float32)


def _base_frequencies(head_dim: int, theta: float) -> np.ndarray:
    return np.float32(1) / _powers(head_dim, theta)


def _turning_dimension(rotations: float, head_dim: int, theta: float, max_position: int) -> float:
    """The (fractional) pair that makes so many full rotations over the original context."""
    return head_dim * math.log(max_position / (rotations * 2 * math.pi)) / (2 * math.log(theta))


def _yarn_magnitude(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if mscale and mscale_all_dim:
        return magnitude(mscale) / magnitude(mscale_all_dim)
    return magnitude(1.0)
