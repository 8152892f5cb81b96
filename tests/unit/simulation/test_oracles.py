"""andes_jax.simulation.oracles"""

from __future__ import annotations

import numpy as np
import pytest

from andes_jax.failure import UsageError
from andes_jax.simulation.oracles import Oracle, noise_of, predictor_of
from tests.simulations import arrive, request_of

ARRIVALS = [arrive(float(index), output=50 + index % 100) for index in range(2000)]


def predictions(predictor):
    return np.array([predictor.predict(request_of(index, each)) for index, each in enumerate(ARRIVALS)], float)


def test_an_oracle_knows():
    assert predictions(predictor_of("oracle", ARRIVALS, 1)).tolist() == [each.output_tokens for each in ARRIVALS]


def test_noise_is_of_the_logarithm_and_by_seed():
    truth = np.array([each.output_tokens for each in ARRIVALS])
    errors = np.log(predictions(predictor_of("0.6", ARRIVALS, 1)) / truth)
    assert abs(errors.mean()) < 0.05 and abs(errors.std() - 0.6) < 0.04
    again, other = (np.log(predictions(predictor_of("0.6", ARRIVALS, seed)) / truth) for seed in (1, 2))
    assert np.array_equal(errors, again) and not np.allclose(errors, other)


def test_no_prediction_is_experience():
    predictor = predictor_of("none", ARRIVALS, 1)
    assert not isinstance(predictor, Oracle)
    assert predictor.predict(request_of(0, ARRIVALS[0])) is None


@pytest.mark.parametrize("words", ["perfect", "-1", "nan", "11", ""])
def test_other_words_are_refused(words):
    with pytest.raises(UsageError, match="none, oracle"):
        noise_of(words)
