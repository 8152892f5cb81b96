"""andes-jax plan"""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.failure import UserError

SMALL = ["--profile", "a10g:llama-3-8b", "--kv-tokens", "2048", "--readers", "fast", "--processes", "1", "--seeds", "1"]


def plan(*arguments):
    result = CliRunner().invoke(app, ["plan", *SMALL, *map(str, arguments)], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output.splitlines()


def test_devices_for_a_trace(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = [f"{index * 2},{100 + 7 * index % 300},{40 + index % 50}" for index in range(50)]
    trace.write_text("arrived_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    lines = plan("--trace", trace, "--policy", "fcfs", "--target-qoe", "0.9")
    assert lines[0] == "a10g:llama-3-8b, 2,048 tokens of cache, mean QoE of 0.9 or more:"
    assert "devices for the mean, 0.51/s" in lines[1] and "for the busiest minute, 0.51/s" in lines[1]
    name, per_device, for_mean, for_peak = lines[2].split()
    assert name == "fcfs" and float(per_device) > 0.6
    assert (for_mean, for_peak) == ("1", "1")


def test_lengths_alone_have_no_demand(tmp_path):
    lengths = tmp_path / "lengths.csv"
    rows = "\n".join(f"{100 + index},{30 + index}" for index in range(20))
    lengths.write_text(f"prompt_tokens,output_tokens\n{rows}\n")
    lines = plan("--trace", lengths, "--arrivals", "poisson", "--duration", 20, "--policy", "fcfs")
    assert lines[1].split() == ["policy", "requests/s", "a", "device"] and len(lines[2].split()) == 2


def test_nobody_reading_along_is_an_error(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrived_s,prompt_tokens,output_tokens\n0,10,10\n1,10,10\n")
    with pytest.raises(UserError, match="nobody reads along"):
        plan("--trace", trace, "--tiers", "batch")
