"""andes_jax.commands.check on the embedded model and on what is wrong."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from andes_jax.cli import app
from andes_jax.commands.check import Findings, Problem, findings
from andes_jax.config import load_config


def settle(tmp_path, **flags):
    engine = {"engine.compile_cache_dir": str(tmp_path / "compiled")}
    return load_config(environ={}, flags=engine | {key.replace("__", "."): value for key, value in flags.items()})


def rows(found: Findings) -> dict[str, tuple[bool, str]]:
    return {name: (good, words) for name, good, words in found.rows}


def test_the_embedded_model_is_fit_to_serve(tmp_path):
    found = findings(settle(tmp_path, engine__kv_pool_bytes="64MiB", model__dtype="float32"))
    assert found.good, found.rows
    looked_at = rows(found)
    assert "llama, 135 million parameters" in looked_at["model"][1]
    assert "MiB of cache" in looked_at["memory"][1] and "replies at a time" in looked_at["shapes"][1]
    assert looked_at["attention"][1] in ("native", "xla")
    assert str(tmp_path / "compiled") in looked_at["compile cache"][1]
    assert not (tmp_path / "compiled" / ".andes-jax-check").exists()


def test_a_missing_model_is_a_problem_and_the_rest_is_still_looked_at(tmp_path):
    found = rows(findings(settle(tmp_path, model__source=str(tmp_path / "absent.gguf"))))
    assert not found["model"][0] and "absent.gguf" in found["model"][1]
    assert found["device"][0] and found["compile cache"][0] and "memory" not in found


def test_a_cache_folder_that_cannot_be_made_is_a_problem(tmp_path):
    (tmp_path / "compiled").write_text("a file, not a folder")
    found = rows(findings(settle(tmp_path)))
    assert not found["compile cache"][0] and "--compile-cache-dir" in found["compile cache"][1]


def test_sizes_that_do_not_fit_are_problems(tmp_path):
    huge = rows(findings(settle(tmp_path, engine__kv_pool_bytes="64TiB")))
    assert not huge["memory"][0] and "64.0 TiB" in huge["memory"][1]
    small = rows(findings(settle(tmp_path, engine__kv_pool_bytes="10MiB", model__dtype="float32")))
    good, words = small["cache of keys and values"]
    assert good and "limits prompt and reply together to 128 tokens instead of 8192" in words
    tiny = rows(findings(settle(tmp_path, engine__kv_pool_bytes="1")))
    assert not tiny["cache of keys and values"][0] and "memory" not in tiny


def test_a_defect_is_no_finding():
    def defect():
        raise AttributeError("a defect")

    with pytest.raises(AttributeError):
        Findings().look("x", defect)
    found = Findings()

    def problem():
        raise Problem("[red]words[/red]")

    assert found.look("x", problem) is None and not found.good


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["absent.gguf"], 1)])
def test_the_exit_code_says_it(tmp_path, arguments, code):
    cache = ["--compile-cache-dir", str(tmp_path), "--kv-pool-bytes", "16MiB"]
    result = CliRunner().invoke(app, ["check", *arguments, *cache], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert ("problem" in result.output) is (code == 1)
