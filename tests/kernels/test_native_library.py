"""Compiling C++ at the first start: found again afterwards, and refused clearly where it cannot be."""

from __future__ import annotations

import pytest

from kernels_pallas import native_library
from kernels_pallas.native_library import NativeUnavailable, load


def _source(folder, text: str):
    path = folder / "answer.cc"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_library_is_compiled_once(tmp_path, monkeypatch):
    source = _source(tmp_path, 'extern "C" int answer() { return 42; }')
    assert load(source, tmp_path / "made").answer() == 42
    monkeypatch.setattr(native_library.subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert load(source, tmp_path / "made").answer() == 42


def test_a_changed_source_is_compiled_anew(tmp_path):
    load(_source(tmp_path, 'extern "C" int answer() { return 42; }'), tmp_path)
    assert load(_source(tmp_path, 'extern "C" int answer() { return 43; }'), tmp_path).answer() == 43
    assert len(list(tmp_path.glob("*.so"))) == 2


def test_no_compiler_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NativeUnavailable, match=r"no C\+\+ compiler \(g\+\+, c\+\+, clang\+\+\) is installed"):
        load(_source(tmp_path, ""), tmp_path)


def test_a_source_that_does_not_compile_leaves_nothing_behind(tmp_path):
    with pytest.raises(NativeUnavailable, match="cannot compile answer.cc: .*error"):
        load(_source(tmp_path, "this is not C++"), tmp_path / "made")
    assert list((tmp_path / "made").iterdir()) == []
