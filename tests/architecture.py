"""The rules the sources keep: functions from module names and texts to complaints, so that each is tested itself."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kernels_pallas", "andes_jax", "server")

# From the bottom up: a module imports its own layer and those above it in this list.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "kernels_pallas",
        "andes_jax",
        "andes_jax.request",
        "andes_jax.events",
        "andes_jax.clock",
        "andes_jax.byte_size",
        "andes_jax.failure",
        "andes_jax.strict_json",
        "andes_jax.batch_lines",
        "andes_jax.settings",
        "andes_jax.config",
    ),
    ("andes_jax.memory",),
    ("andes_jax.prediction",),
    ("andes_jax.scheduling",),
    ("andes_jax.workload",),
    ("andes_jax.runtime.shapes",),  # integers only; simulated steps are cut as real ones
    ("andes_jax.simulation",),
    ("andes_jax.loadtest",),
    ("andes_jax.text",),
    ("andes_jax.profiling",),
    ("andes_jax.model",),
    ("andes_jax.runtime",),
    ("andes_jax.engine",),
    ("andes_jax.remote",),
    ("andes_jax.build",),
    ("andes_jax.jobs",),
    ("server",),
    ("andes_jax.commands",),
    ("andes_jax.cli",),
)
WITHOUT_ARRAYS = (
    "andes_jax.memory",
    "andes_jax.prediction",
    "andes_jax.scheduling",
    "andes_jax.workload",
    "andes_jax.simulation",
    "andes_jax.loadtest",
    "andes_jax.text",
    "andes_jax.engine",
    "andes_jax.remote",
    "andes_jax.jobs",
    "andes_jax.config",
    "andes_jax.settings",
    "server",
)
ARRAY_LIBRARIES = {"jax", "jaxlib", "flax", "orbax"}
FILE_LINES, FUNCTION_LINES = 300, 60

Sources = Mapping[str, str]  # dotted module name -> its text; a package goes by its own name


def is_generated(path: Path) -> bool:
    """Whether protoc wrote a module: nobody reads it, and the rules are not for it."""
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def project_sources(*, generated: bool = False) -> dict[str, str]:
    """Every module of the three packages, and those that were generated where they are wanted."""
    sources = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if is_generated(path) and not generated:
                continue
            sources[module_name(path)] = path.read_text(encoding="utf-8")
    return sources


@lru_cache(maxsize=4096)
def parsed(text: str) -> ast.Module:
    """The tree of a source, which nobody may change."""
    return ast.parse(text)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def imports(module: str, sources: Sources) -> set[str]:
    """What a module imports anywhere in its text, lazily or for types alone too, as precise as `sources` allows."""
    found: set[str] = set()
    is_package = any(other.startswith(module + ".") for other in sources)
    for node in ast.walk(parsed(sources[module])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                kept = len(parents) - node.level + is_package
                base = ".".join([*parents[:kept], *filter(None, [base])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in sources else base)
    return found


def layer(module: str) -> int | None:
    """Index of the layer, by the longest name in LAYERS that the module is inside of."""
    best: tuple[int, int] | None = None
    for index, names in enumerate(LAYERS):
        for name in names:
            # The bare package names stand for their __init__ alone where they are split over layers.
            fits = module == name if name == "andes_jax" else inside(module, name)
            if fits and (best is None or len(name) > best[0]):
                best = (len(name), index)
    return None if best is None else best[1]


def layer_faults(sources: Sources) -> Iterator[str]:
    for module in sources:
        own = layer(module)
        if own is None:
            yield f"{module} is in no layer"
            continue
        for target in imports(module, sources) & set(sources):
            above = layer(target)
            if above is not None and above > own:
                yield f"{module} imports {target}, which is above it"


def cycle_faults(sources: Sources) -> Iterator[str]:
    graph = {module: (imports(module, sources) & set(sources)) - {module} for module in sources}
    done: set[str] = set()
    path: list[str] = []

    def visit(module: str) -> Iterator[str]:
        if module in path:
            yield " -> ".join([*path[path.index(module) :], module])
            return
        if module in done:
            return
        path.append(module)
        for target in sorted(graph[module]):
            yield from visit(target)
        path.pop()
        done.add(module)

    for module in sorted(graph):
        yield from visit(module)


def array_faults(sources: Sources) -> Iterator[str]:
    """Modules that decide or speak, and yet reach an array library, directly or through others."""
    for module in sources:
        if not any(inside(module, package) for package in WITHOUT_ARRAYS):
            continue
        seen, queue = {module}, [module]
        while queue:
            current = queue.pop()
            for target in imports(current, sources):
                if target.split(".")[0] in ARRAY_LIBRARIES:
                    yield f"{module} reaches {target} through {current}"
                elif target in sources and target not in seen:
                    seen.add(target)
                    queue.append(target)


def kernel_faults(sources: Sources) -> Iterator[str]:
    for module in sources:
        if inside(module, "kernels_pallas") or module == "andes_jax.model.attention":
            continue
        if any(inside(target, "kernels_pallas") for target in imports(module, sources)):
            yield f"{module} imports kernels_pallas; only andes_jax.model.attention does"


def cli_faults(sources: Sources) -> Iterator[str]:
    for module in sources:
        if "andes_jax.cli" in imports(module, sources):
            yield f"{module} imports andes_jax.cli"


def environment_faults(sources: Sources) -> Iterator[str]:
    for module, text in sources.items():
        if module == "andes_jax.config":
            continue
        for node in ast.walk(parsed(text)):
            named = (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")) or (
                isinstance(node, ast.ImportFrom)
                and node.module == "os"
                and {alias.name for alias in node.names} & {"environ", "getenv"}
            )
            if named:
                yield f"{module}:{node.lineno} touches the environment; andes_jax.config does that"


def undeclared(sources: Sources, declared: set[str], distributions: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Imports from packages that the wheel does not ask for. `distributions`: top-level name to who provides it."""
    for module in sources:
        for target in imports(module, sources):
            top = target.split(".")[0]
            if top in sys.stdlib_module_names or top in PACKAGES:
                continue
            providers = {canonical(name) for name in distributions.get(top, [])}
            if not providers & declared:
                yield f"{module} imports {top}, which no declared dependency provides"


def canonical(distribution: str) -> str:
    """A distribution's name as all its spellings have it in common."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!;\[~]", distribution)[0]).lower()


def budget_faults(name: str, text: str, *, functions: bool = True) -> Iterator[str]:
    """Files and functions that have outgrown their budget."""
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f"{name} has {lines} lines, more than {FILE_LINES}"
    if not functions:
        return
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{name}:{node.lineno} {node.name} has {length} lines, more than {FUNCTION_LINES}"


def has_logic(text: str) -> bool:
    """Whether a module does anything: a function with a body that is more than a docstring or an ellipsis."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [
                each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
            if body:
                return True
    return False


def mirror(module: str) -> tuple[str, str]:
    """The folder a module's tests are in or below, and the beginning of their file's name, without folder markers."""
    parts = module.split(".")
    if parts[0] == "andes_jax":
        return "/".join(["tests/unit", *parts[1:-1]]), f"test_{parts[-1]}"
    return {"server": "tests/server", "kernels_pallas": "tests/kernels"}[parts[0]], f"test_{parts[-1]}"


def untested(sources: Sources, tests: Iterable[str], covered_elsewhere: Mapping[str, str]) -> Iterator[str]:
    """Modules with logic that no test file mirrors and that no other test is said to cover. `tests` are paths."""
    for module, text in sources.items():
        folder, name = mirror(module)
        mirrored = any(
            path.startswith(folder + "/") and (path.endswith(f"/{name}.py") or f"/{name}_" in path) for path in tests
        )
        if has_logic(text) and not mirrored and module not in covered_elsewhere:
            yield f"{module} has no test file {folder}/{name}.py"


def reached(starts: Iterable[str], sources: Sources) -> set[str]:
    """The modules that some modules import, directly or through others, and these themselves."""
    seen: set[str] = set()
    queue = [start for start in starts if start in sources]
    while queue:
        module = queue.pop()
        seen.add(module)
        queue += (imports(module, sources) & set(sources)) - seen
    return seen
