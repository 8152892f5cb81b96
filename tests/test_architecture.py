"""The shape of the sources: direction of imports, budgets, the map, and that each rule can fail."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import architecture
from tests.architecture import PACKAGES, ROOT

SOURCES = architecture.project_sources()

# Modules whose tests have another name, with the file that has them.
COVERED_ELSEWHERE: dict[str, str] = {
    "andes_jax.cli": "tests/unit/test_cli.py",
    "andes_jax.settings": "tests/unit/test_config.py",
    "andes_jax.byte_size": "tests/unit/test_config.py",
    "andes_jax.commands.options": "tests/unit/test_cli.py",
    "andes_jax.commands.failure": "tests/unit/test_cli.py",
    "andes_jax.commands.progress": "tests/unit/commands/test_generate.py",
    "andes_jax.text.backends": "tests/unit/text/test_gguf_tokenizer.py",
    "andes_jax.text.vocabulary": "tests/unit/text/test_gguf_tokenizer.py",
    "andes_jax.model.layers": "tests/unit/model/test_decoder.py",
    "andes_jax.runtime.programs": "tests/unit/runtime/test_runner.py",
    "andes_jax.remote.clock": "tests/unit/remote/test_client.py",
    "andes_jax.remote.link": "tests/unit/remote/test_client.py",
    "andes_jax.remote.description": "tests/unit/remote/test_client.py",
    "andes_jax.remote.keys": "tests/server/test_auth.py",
    "andes_jax.commands.engine": "tests/unit/test_cli.py",
    "andes_jax.commands.front_end": "tests/end_to_end/test_remote.py",
    "kernels_pallas.paged_attention.mosaic.hopper_blocks": "tests/kernels/mosaic/test_hopper_prefill.py",
    "kernels_pallas.paged_attention.mosaic.ampere_attention": "tests/kernels/mosaic/test_ampere_prefill.py",
    "kernels_pallas.paged_attention.mosaic.ampere_blocks": "tests/kernels/mosaic/test_ampere_prefill.py",
    "kernels_pallas.paged_attention.native": "tests/kernels/test_paged_attention.py",
    "kernels_pallas.paged_attention.options": "tests/kernels/test_paged_attention_bounds.py",
    "kernels_pallas.paged_attention.api": "tests/kernels/test_paged_attention.py",
    "kernels_pallas.paged_attention.reference": "tests/kernels/test_paged_attention.py",
    "kernels_pallas.paged_attention.xla": "tests/kernels/test_paged_attention.py",
    "server.context": "tests/server/test_app.py",
    "server.hypercorn_repairs.config": "tests/server/test_serve.py",
}

# Written in pieces, or this file would hold what it looks for.
MACHINE_TRACES = tuple(
    "".join(pieces)
    for pieces in (
        ("/wo", "rk/"), ("/tm", "p/"), ("/ro", "ot/"), ("/op", "t/wheels"), ("/op", "t/pypi"), ("/home", "/"),
        ("pypi", ".org"), ("python", "hosted.org"), ("anaconda", ".org"), ("npmjs", ".org"), ("proxy.golang", ".org"),
        ("index", "-url"), ("find", "-links"),
    )
)  # fmt: skip


def tracked_files() -> list[Path]:
    """What is or is about to be in the repository; outside a checkout, what is beside this folder."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True
    )
    if listing.returncode != 0:
        return [path for path in ROOT.rglob("*.*") if not {".venv", ".venv-oldest", "build"} & set(path.parts)]
    return [path for name in listing.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def machine_traces(text: str) -> list[str]:
    return [trace for trace in MACHINE_TRACES if trace in text]


def unlisted(modules: dict[str, str], workspace: str) -> list[str]:
    """Modules with something in them that the map does not name by path in backticks."""
    named = set(re.findall(r"`([\w/.]+)`", workspace))
    missing = []
    for module, text in modules.items():
        path = module.replace(".", "/")
        is_package = (ROOT / path / "__init__.py").exists()
        if is_package and not architecture.has_logic(text):
            continue
        if not named & {f"{path}.py", f"{path}/__init__.py"}:
            missing.append(module)
    return missing


@pytest.mark.parametrize(
    "rule",
    [
        architecture.layer_faults,
        architecture.cycle_faults,
        architecture.array_faults,
        architecture.kernel_faults,
        architecture.cli_faults,
        architecture.environment_faults,
    ],
)
def test_imports_go_down(rule):
    assert list(rule(SOURCES)) == []


def test_the_wheel_asks_for_what_it_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {architecture.canonical(requirement) for requirement in project["dependencies"]}
    extras = project["optional-dependencies"]
    optional = {architecture.canonical(each) for name in ("plots", "documents") for each in extras[name]}
    known = declared | {"jaxlib", "pydantic-core"}  # parts of jax and pydantic that come in their own wheels
    assert list(architecture.undeclared(SOURCES, known | optional, packages_distributions())) == []
    everything = architecture.project_sources(generated=True)
    used = {target.split(".")[0] for module in everything for target in architecture.imports(module, everything)}
    providers = packages_distributions()
    assert declared <= {architecture.canonical(name) for top in used for name in providers.get(top, [])}


def test_files_and_functions_stay_small():
    faults = []
    for path in tracked_files():
        if path.suffix == ".py" and not architecture.is_generated(path):
            in_tests = "tests" in path.relative_to(ROOT).parts
            name = str(path.relative_to(ROOT))
            faults += architecture.budget_faults(name, path.read_text(encoding="utf-8"), functions=not in_tests)
    assert faults == []


def test_workspace_lists_every_module():
    assert unlisted(SOURCES, (ROOT / "WORKSPACE.md").read_text(encoding="utf-8")) == []


def test_workspace_names_only_what_exists():
    workspace = (ROOT / "WORKSPACE.md").read_text(encoding="utf-8")
    paths = re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+\.py)`", workspace)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_no_traces_of_one_machine():
    found = {}
    for path in tracked_files():
        try:
            traces = machine_traces(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        if traces:
            found[str(path.relative_to(ROOT))] = traces
    assert found == {}


def test_every_module_has_tests():
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    assert list(architecture.untested(SOURCES, tests, COVERED_ELSEWHERE)) == []


def test_tests_said_to_cover_a_module_reach_it():
    tests = {
        architecture.module_name(path): path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")
    }
    for module, place in COVERED_ELSEWHERE.items():
        assert module in SOURCES, f"{module} is gone"
        starts = [
            architecture.module_name(ROOT / place),
            architecture.module_name((ROOT / place).parent / "conftest.py"),
        ]
        assert module in architecture.reached(starts, {**SOURCES, **tests}), f"{place} does not use {module}"


# Each rule, on sources that break it.


def faults(rule, **modules: str) -> list[str]:
    return list(rule({name.replace("__", "."): text for name, text in modules.items()}))


def test_layer_rule_sees_an_upward_import():
    assert faults(
        architecture.layer_faults, andes_jax__memory__pool="import andes_jax.engine", andes_jax__engine=""
    ) == ["andes_jax.memory.pool imports andes_jax.engine, which is above it"]
    lazy = "def f():\n    from andes_jax import engine"
    assert faults(architecture.layer_faults, andes_jax="", andes_jax__text__chat=lazy, andes_jax__engine="")
    relative = "from ..scheduling import plan"
    assert faults(architecture.layer_faults, andes_jax__memory__pool=relative, andes_jax__scheduling__plan="")
    down = "from andes_jax.memory import pool"
    assert faults(architecture.layer_faults, andes_jax__engine=down, andes_jax__memory__pool="") == []


def test_layer_rule_sees_a_module_without_layer():
    assert faults(architecture.layer_faults, andes_jax__misc="") == ["andes_jax.misc is in no layer"]


def test_cycle_rule_sees_a_cycle():
    cycle = {"server__a": "import server.b", "server__b": "from server import c", "server__c": "from . import a"}
    assert faults(architecture.cycle_faults, **cycle, server="") != []
    assert faults(architecture.cycle_faults, server__a="import server.b", server__b="") == []


def test_array_rule_sees_arrays_directly_and_through_others():
    assert faults(architecture.array_faults, andes_jax__engine="import jax.numpy as jnp")
    through = {"andes_jax__text__chat": "import andes_jax.clock", "andes_jax__clock": "def f():\n    import flax"}
    assert faults(architecture.array_faults, **through) == ["andes_jax.text.chat reaches flax through andes_jax.clock"]
    assert faults(architecture.array_faults, andes_jax__model__decoder="import jax") == []


def test_kernel_cli_and_environment_rules_see_their_faults():
    kernels = {"kernels_pallas__paged": "", "andes_jax__model__layers": "from kernels_pallas import paged"}
    assert faults(architecture.kernel_faults, **kernels)
    kernels = {"kernels_pallas__paged": "", "andes_jax__model__attention": "from kernels_pallas import paged"}
    assert faults(architecture.kernel_faults, **kernels) == []
    assert faults(architecture.cli_faults, server__app="from andes_jax import cli", andes_jax__cli="", andes_jax="")
    assert faults(architecture.environment_faults, server__app="import os\nos.environ['A']")
    assert faults(architecture.environment_faults, server__app="from os import getenv")
    assert faults(architecture.environment_faults, andes_jax__config="import os\nos.environ['A']") == []


def test_dependency_rule_sees_an_undeclared_import():
    sources = {"server.a": "import h2.events, os\nfrom server import b", "server.b": "import yaml"}
    providers = {"h2": ["H2"], "yaml": ["PyYAML"]}
    assert list(architecture.undeclared(sources, {"h2", "pyyaml"}, providers)) == []
    assert len(list(architecture.undeclared(sources, {"h2"}, providers))) == 1
    assert len(list(architecture.undeclared(sources, {"h2", "pyyaml"}, {"h2": ["h2"]}))) == 1
    assert architecture.canonical("Orbax_Checkpoint[all]>=0.11; x") == "orbax-checkpoint"


def test_budget_rule_sees_long_files_and_functions():
    assert list(architecture.budget_faults("f", "a = 1\n" * 301))
    assert list(architecture.budget_faults("f", "a = 1\n" * 300)) == []
    assert list(architecture.budget_faults("f", "def g():\n" + "    a = 1\n" * 60))
    assert list(architecture.budget_faults("f", "def g():\n" + "    a = 1\n" * 59)) == []


def test_map_trace_and_test_rules_see_their_faults():
    assert unlisted({"server.new": "def f(): return 1"}, "- `server/old.py`: x") == ["server.new"]
    assert unlisted({"server.new": ""}, "- `server/new.py`: x") == []
    assert machine_traces("see " + "/wo" + "rk/main") and not machine_traces("see ./main")
    logic = {"server.new": "def f():\n    return 1"}
    assert list(architecture.untested(logic, ["tests/server/test_old.py"], {}))
    assert list(architecture.untested(logic, ["tests/unit/test_new.py"], {}))
    assert list(architecture.untested(logic, ["tests/server/test_new.py"], {})) == []
    assert list(architecture.untested(logic, [], {"server.new": "tests/x.py"})) == []
    assert list(architecture.untested({"server.new": "class A:\n    def f(self): ..."}, [], {})) == []
    sources = {"test": "import server.a", "server.a": "from server import b", "server.b": "", "server.c": ""}
    assert architecture.reached(["test"], sources) == {"test", "server.a", "server.b"}
