"""Write what the code says of itself: docs/settings.md, and the modules in WORKSPACE.md. A test compares them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import yaml

from andes_jax.commands.options import setting_rows
from andes_jax.config import configs_folder, variants
from andes_jax.settings import SECTIONS

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "docs" / "settings.md"
WORKSPACE = ROOT / "WORKSPACE.md"
MODULES = re.compile(r"(?<=<!-- modules: `make docs` writes them -->\n).*?(?=<!-- end of modules -->)", re.DOTALL)

# Folders in the order of the layers, from the bottom up; a package's modules follow it.
PARTS = (
    "kernels_pallas",
    "andes_jax",
    "andes_jax/memory",
    "andes_jax/prediction",
    "andes_jax/scheduling",
    "andes_jax/workload",
    "andes_jax/simulation",
    "andes_jax/loadtest",
    "andes_jax/text",
    "andes_jax/model",
    "andes_jax/runtime",
    "andes_jax/profiling",
    "andes_jax/engine",
    "andes_jax/remote",
    "server",
    "andes_jax/jobs",
    "andes_jax/commands",
)

HEAD = """\
# Settings

`make docs` writes this page from the code; edit andes_jax/settings.py and configs/default.yaml instead.

A value comes from the first of these that gives one:

1. a flag of the command, such as `--port 9000`;
2. a variable `ANDES_<SECTION>_<FIELD>`, such as `ANDES_SERVER_PORT=9000`; lists are separated by commas, and `null`
   or nothing means none;
3. the YAML file, or the variant by name, given with `--config` or `ANDES_CONFIG`;
4. `configs/default.yaml`.

An unknown name or a value that cannot be used ends the program with one line that names the setting and its source.
Only a variable without a known section, such as `ANDES_SERVICE_HOST`, is ignored, with a warning where it looks like
a slip. `api_keys` that are given but empty are an error, not an open server. `ANDES_DEBUG=1` or `--log-level debug`
adds tracebacks to error messages. Sizes are bytes, or written like `512MiB`, `1.5GiB`, `2G` (binary) or `500MB`
(decimal).
"""


def cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def settings_page() -> str:
    """The whole of docs/settings.md."""
    defaults = yaml.safe_load((configs_folder() / "default.yaml").read_text(encoding="utf-8"))
    parts = [HEAD]
    for section, model in SECTIONS.items():
        parts.append(f"\n## {section}\n\n{(model.__doc__ or '').splitlines()[0]}\n\n")
        parts.append("| Setting | Flag | Variable | Type | Bounds | Default | Meaning |\n" + "|---" * 7 + "|\n")
        for row in setting_rows(section):
            value = defaults[section][row["name"].split(".")[1]]
            default = "none" if value == [] else yaml.safe_dump(value).split("\n")[0]
            cells = [f"`{row[each]}`" for each in ("name", "flag", "variable")]
            cells += [row["type"], row["bounds"], default, row["meaning"]]
            parts.append(f"| {' | '.join(map(cell, cells))} |\n")
    parts.append("\n## Variants\n\nFor `--config` by name; what they leave out stays at its default.\n")
    for name in variants():
        if name != "default":
            parts.append(f"\n### {name}\n\n```yaml\n{(configs_folder() / f'{name}.yaml').read_text().rstrip()}\n```\n")
    return "".join(parts)


def module_list() -> str:
    """One line for each module: its path, and the first line of its docstring."""
    lines = []
    for part in PARTS:
        whole = part in ("kernels_pallas", "server") or "/" in part
        paths = sorted((ROOT / part).glob("**/*.py" if whole else "*.py"))
        lines.append(f"\n**{part}/**\n\n")
        for path in paths:
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if docstring or path.name != "__init__.py":
                lines.append(f"- `{path.relative_to(ROOT)}`: {(docstring or '').splitlines()[0]}\n")
    return "".join([*lines, "\n"])


def with_modules(workspace: str) -> str:
    """The map with its list of modules as the sources have it now. Raises ValueError without a place for the list."""
    if not MODULES.search(workspace):
        raise ValueError("WORKSPACE.md has no place for its modules")
    return MODULES.sub(lambda _: module_list(), workspace)


if __name__ == "__main__":
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text(settings_page(), encoding="utf-8")
    WORKSPACE.write_text(with_modules(WORKSPACE.read_text(encoding="utf-8")), encoding="utf-8")
