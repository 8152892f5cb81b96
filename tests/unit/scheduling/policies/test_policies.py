from __future__ import annotations

import pytest

from andes_jax.scheduling.policies import NAMES, create_policy


def test_every_name_makes_its_policy():
    assert {"fcfs", "three_tier"} <= set(NAMES)
    for name in NAMES:
        assert create_policy(name, max_model_len=10).name == name


def test_other_names_are_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"'lifo'.*fcfs, three_tier"):
        create_policy("lifo", max_model_len=10)
