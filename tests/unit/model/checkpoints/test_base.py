from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from andes_jax.model.checkpoints import CheckpointError, open_checkpoint
from andes_jax.model.checkpoints.base import validate
from andes_jax.model.spec import expected_shapes


def test_what_fits_passes(small_spec):
    validate("file", small_spec, expected_shapes(small_spec))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (1, "file: tensor embed_tokens.weight is missing, of 21 tensors this model needs"),
        (
            3,
            "embed_tokens.weight, layers.0.input_layernorm.weight, layers.0.self_attn.q_proj.weight are missing",
        ),
        (5, "and 2 more are missing"),
    ],
)
def test_missing_tensors_are_named_and_counted(missing, message, small_spec):
    shapes = dict(list(expected_shapes(small_spec).items())[missing:])
    with pytest.raises(CheckpointError) as error:
        validate("file", small_spec, shapes)
    assert message in str(error.value)


def test_arrays_are_device_arrays_that_do_not_alias_the_file(golden):
    checkpoint = open_checkpoint(golden / "llama2")
    for name, array in checkpoint.arrays(jnp.float32):
        assert isinstance(array, jax.Array), name
        stored = dict(checkpoint.tensors())[name]
        np.testing.assert_array_equal(np.asarray(array), stored)
        assert array.unsafe_buffer_pointer() != stored.ctypes.data
        break
