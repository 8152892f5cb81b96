"""What tests of several commands read."""

from __future__ import annotations

import pytest


@pytest.fixture
def trace(tmp_path):
    """A recorded trace of forty requests, two a second."""
    path = tmp_path / "trace.csv"
    rows = [f"{index * 0.5},{100 + 7 * index},{20 + index}" for index in range(40)]
    path.write_text("arrived_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    return path
