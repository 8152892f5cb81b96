"""The generated modules are what andes.proto says now."""

from __future__ import annotations

import importlib.util

import pytest

from tests.architecture import ROOT


@pytest.fixture
def writer():
    """scripts/write_protocol.py"""
    script = importlib.util.spec_from_file_location("write_protocol", ROOT / "scripts" / "write_protocol.py")
    assert script is not None and script.loader is not None
    module = importlib.util.module_from_spec(script)
    script.loader.exec_module(module)
    return module


def test_generated_modules_are_up_to_date(writer, tmp_path):
    writer.generate(tmp_path)
    for path in writer.GENERATED:
        assert (tmp_path / path).read_text() == (ROOT / path).read_text(), f"{path}: run `make protocol`"
