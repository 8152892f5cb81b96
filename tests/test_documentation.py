"""What a user can set, type or request is written down, and what is written down exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import typer
import yaml

import andes_jax
from andes_jax.cli import app
from andes_jax.settings import SECTIONS
from tests.architecture import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def undocumented(names: list[str], pages: str) -> list[str]:
    """Names that stand nowhere as words of their own."""
    return [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", pages)]


def uncommented(text: str) -> list[str]:
    """Settings in YAML text without a comment on their line."""
    return re.findall(r"^  (\w+):(?!.*#).*$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def writer():
    """scripts/write_docs.py"""
    script = importlib.util.spec_from_file_location("write_docs", ROOT / "scripts" / "write_docs.py")
    assert script is not None and script.loader is not None
    module = importlib.util.module_from_spec(script)
    script.loader.exec_module(module)
    return module


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def test_settings_page_is_what_the_code_says(writer):
    assert writer.SETTINGS.read_text(encoding="utf-8") == writer.settings_page(), "run `make docs`"


def test_module_list_is_what_the_code_says(writer):
    workspace = writer.WORKSPACE.read_text(encoding="utf-8")
    assert workspace == writer.with_modules(workspace), "run `make docs`"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_every_setting_in_a_file_has_a_comment(path):
    assert uncommented(path.read_text(encoding="utf-8")) == []


def test_every_setting_is_in_the_default_file_and_described():
    tree = yaml.safe_load((ROOT / "configs" / "default.yaml").read_text(encoding="utf-8"))
    for section, model in SECTIONS.items():
        for field, info in model.model_fields.items():
            assert field in tree[section], f"{section}.{field} is not in configs/default.yaml"
            assert info.description and info.description.endswith("."), f"{section}.{field} has no description"


def test_every_command_is_documented_and_helps():
    assert undocumented([f"andes-jax {name}" for name in COMMANDS], PAGES) == []
    for name, command in COMMANDS.items():
        assert command.help, f"{name} has no help"
        assert all(getattr(param, "help", None) for param in command.params if param.name != "help"), name


def test_every_flag_is_documented():
    flags = [flag for command in COMMANDS.values() for param in command.params for flag in param.opts if flag[0] == "-"]
    assert len(flags) > 40
    assert undocumented(sorted(set(flags)), PAGES) == []


def test_flags_that_are_documented_exist():
    known = {flag for command in COMMANDS.values() for p in command.params for flag in (*p.opts, *p.secondary_opts)}
    for line in re.findall(r"^.*andes-jax (?:serve|generate|convert|check).*$", PAGES, re.MULTILINE):
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", line.split("#")[0]):
            assert flag in known | {"--help", "--version"}, f"{flag} in {line!r}"


def test_make_targets_in_the_readme_exist():
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", README))
    assert {"serve", "test"} <= named <= make_targets(MAKEFILE)


def test_every_route_is_documented():
    from server.app import create_app
    from server.context import ServerContext

    context = ServerContext(
        engine=MagicMock(), tokenizer=MagicMock(vocab_size=0), chat_template=None, model_id="nobody calls it"
    )
    paths = [re.sub(r":\w+}", "}", route.path) for route in create_app(context).routes]
    assert "/v1/chat/completions" in paths
    assert undocumented([path for path in paths if path != "/"], PAGES) == []


def test_version_and_changelog_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in changelog or f"## [{andes_jax.__version__}]" in changelog


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "WORKSPACE.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


# The rules, on what breaks them.


def test_rules_see_their_faults():
    assert undocumented(["--port", "--new"], "use --port, or --new-thing") == ["--new"]
    assert undocumented(["/v1/models"], "GET `/v1/models`") == []
    assert uncommented("server:\n  host: x  # where\n  port: 1\n") == ["port"]
    assert make_targets("install: x\n\techo\nA := b\nwheel-test:\n") == {"install", "wheel-test"}


def test_the_readme_is_short():
    assert len(Path(ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200
