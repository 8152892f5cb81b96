"""Interpreted kernels are slow: every fourth case is run with all other tests, the rest by `make test-kernels`."""

from __future__ import annotations

import pytest

INTERPRETED = ("test_hopper_", "test_ampere_")
SAMPLE = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    interpreted = [item for item in items if item.path.name.startswith(INTERPRETED)]
    for number, item in enumerate(interpreted):
        if number % SAMPLE:
            item.add_marker(pytest.mark.slow)
