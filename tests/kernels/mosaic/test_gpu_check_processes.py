"""The check for a real GPU, without one: processes that go wrong, what is kept of them, and a rehearsal of it all."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from scripts.gpu_check.__main__ import PARTS, faults, named
from scripts.gpu_check.part import BROKEN, LATE, run_items
from scripts.gpu_check.results import Results
from scripts.gpu_check.supervisor import OUT_OF_TIME, run_part
from tests.architecture import ROOT


def test_items_that_raise_do_not_end_a_part(monkeypatch):
    told = []
    items = {"bad": lambda: 1 / 0, "good": lambda: {"x": 1}, "old": lambda: {"x": 2}}
    assert run_items(items, ["old"], 60, told.append) == 0
    assert [line.get("start", line.get("item")) for line in told] == ["bad", "bad", "good", "good"]
    assert "ZeroDivisionError" in told[1]["found"]["error"] and told[3]["found"]["x"] == 1
    assert run_items(items, [], -1, told.append) == LATE
    monkeypatch.setattr("scripts.gpu_check.part.computes", lambda: False)
    assert run_items(items, [], 60, told.append) == BROKEN


CHILD = """
import json, os, sys, time
def tell(**line): print(json.dumps(line), flush=True)
for item in ("first", "hangs", "aborts", "last"):
    if item in sys.argv: continue
    tell(start=item)
    print("a library's word")
    if item == "hangs": time.sleep(600)
    if item == "aborts": os.abort()
    tell(item=item, found={"x": 1})
"""


def test_a_part_goes_on_after_items_that_hang_or_abort():
    told = {}
    fault = run_part(
        lambda _, done: [sys.executable, "-c", CHILD, *done], os.environ, 60, told.__setitem__, patience_s=2
    )
    assert fault is None
    assert list(told) == ["first", "hangs", "aborts", "last"] and told["last"] == {"x": 1}
    assert "said nothing for 2 s" in told["hangs"]["error"] and "status -6" in told["aborts"]["error"]


def test_a_part_that_has_no_time_or_does_not_begin_says_so():
    told = {}
    endless = [sys.executable, "-c", CHILD, "first", "aborts"]
    assert run_part(lambda *_: endless, os.environ, 2, told.__setitem__) == OUT_OF_TIME
    assert told == {"hangs": {"not_available": OUT_OF_TIME}}
    dead = [sys.executable, "-c", "import sys; sys.exit('no GPU')"]
    assert "status 1: no GPU" in (run_part(lambda *_: dead, os.environ, 30, told.__setitem__) or "")


def test_the_file_is_whole_after_every_item(tmp_path):
    results = Results(tmp_path / "deep" / "found.json")
    for name in ("a", "b"):
        results.add("numerics", name, {"right": True, "relative_error": float("nan")})
        assert name in json.loads(results.path.read_text())["parts"]["numerics"]
    assert results.part("numerics")["a"]["relative_error"] == "nan"


def test_the_file_is_named_after_the_device_unless_it_has_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.gpu_check.__main__.FOLDER", tmp_path)
    results = Results(tmp_path / "gpu-unnamed.json")
    results.add("limits", "device", {"device": "NVIDIA H100 80GB HBM3"})
    named(results, tmp_path / "gpu-unnamed.json")
    assert results.path.name == "gpu-unnamed.json"
    named(results, None)
    assert [path.name for path in tmp_path.iterdir()] == ["gpu-nvidia-h100-80gb-hbm3.json"]


def test_faults_are_wrong_numbers_failures_and_nothing_checked(tmp_path):
    results = Results(tmp_path / "found.json")
    assert faults(results) == ["numerics: nothing was checked"]
    results.add("numerics", "a", {"right": False})
    results.add("decode", "b", {"error": "no"})
    results.add("tuning", "c", {"error": "more shared memory than there is"})
    assert faults(results) == ["numerics: a is wrong", "decode: b failed"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_all_of_it_is_rehearsed(tmp_path):
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "scripts.gpu_check", "--rehearse", "--out", str(out), "--seconds", "1200"]
    # jax's own dense attention does not bear the strictness about types that tests ask for
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_NUMPY_")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert list(found["parts"]) == list(PARTS) and "unfinished" not in found
    for part, items in found["parts"].items():
        assert not [item for item, values in items.items() if "error" in values], part
