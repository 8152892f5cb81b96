"""The check for a real GPU, without one: processes that go wrong, what is kept of them, and a rehearsal of it all."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from scripts.gpu_check.__main__ import PARTS, faults, main, named
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
tell(items=["first", "hangs", "aborts", "last"])
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
    assert told == {item: {"not_available": OUT_OF_TIME} for item in ("first", "hangs", "aborts", "last")}
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


def test_faults_are_wrong_numbers_failures_and_what_was_not_checked(tmp_path):
    results = Results(tmp_path / "found.json")
    assert faults(results, list(PARTS)) == ["numerics: nothing was checked"]
    assert faults(results, ["limits"]) == []
    results.add("numerics", "a", {"right": False})
    results.add("numerics", "b", {"right": True})
    results.add("numerics", "c", {"not_available": OUT_OF_TIME})
    results.add("decode", "d", {"error": "no"})
    results.add("step", "e", {"not_available": "too large for the device"})
    results.add("tuning", "f", {"error": "more shared memory than there is"})
    wrong = ["numerics: a is wrong", "numerics: c was not checked"]
    assert faults(results, list(PARTS)) == [*wrong, "decode: d failed"]
    results.note("unfinished", {"decode": OUT_OF_TIME, "tuning": OUT_OF_TIME})
    assert faults(results, list(PARTS))[2:] == ["decode: d failed", "decode: cut short, out of time"]
    assert faults(results, ["numerics", "tuning"]) == wrong


@pytest.mark.parametrize(
    ("asked", "late", "status"),
    [
        (["numerics"], [], 0),
        (["numerics"], ["numerics"], 1),
        (["limits"], [], 0),
        (["limits"], ["limits"], 1),
        ([], [], 0),
        ([], ["step"], 1),
        ([], ["rivals", "tuning"], 0),
    ],
)
def test_the_exit_status_is_that_of_what_was_asked_for(tmp_path, monkeypatch, capsys, asked, late, status):
    def run_part(command, _environment, _seconds, tell):
        part = command(1.0, [])[3]
        tell("an item", {"right": True, "relative_error": 0.0, "largest_error": 0.0} if part not in late else {})
        return OUT_OF_TIME if part in late else None

    monkeypatch.setattr("scripts.gpu_check.__main__.run_part", run_part)
    options = [word for part in asked for word in ("--part", part)]
    monkeypatch.setattr(sys, "argv", ["gpu_check", "--out", str(tmp_path / "found.json"), *options])
    assert main() == status
    assert all(f"{part}: out of time" in capsys.readouterr().out for part in late[:1])


@pytest.mark.slow
@pytest.mark.parametrize(("part", "seconds", "status"), [("numerics", 9, 1), ("limits", 120, 0)])
def test_one_part_is_rehearsed(tmp_path, part, seconds, status):
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "scripts.gpu_check", "--rehearse", "--out", str(out)]
    command += ["--part", part, "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr


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
