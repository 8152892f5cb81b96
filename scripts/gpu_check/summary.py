"""The results as people read them: a line per item, and the best cuts as rows for the tables of tuning.py."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kernels_pallas.paged_attention.mosaic.arg_specs import SPECS, Spec
from kernels_pallas.paged_attention.mosaic.configs import DecodeConfig, PrefillConfig
from kernels_pallas.paged_attention.mosaic.tuning import Shape

Found = Mapping[str, Any]
GAIN = 1.03  # times as fast as the rule's cut: less is noise and makes no row


def line(part: str, item: str, found: Found) -> str:
    """One item's most important numbers."""
    return f"{part:<12} {item:<72} {'; '.join(_facts(found)) or found}"


def _facts(found: Found) -> Iterator[str]:
    if "error" in found:
        yield f"ERROR {' '.join(str(found['error']).split())[:160]}"
    if "not_available" in found:
        yield f"not available: {found['not_available']}"
    if "right" in found:
        yield f"{'right' if found['right'] else 'WRONG'}, relative error {number(found['relative_error'])}"
        yield f"largest {number(found['largest_error'])}"
    if "seconds" in found:
        yield f"{found['seconds'] * 1e6:.1f} us"
    for name, unit, size in (
        ("bytes_per_s", "GB/s", 1e9),
        ("copy_bytes_per_s", "GB/s copied", 1e9),
        ("read_bytes_per_s", "GB/s read", 1e9),
        ("flops", "TFLOP/s", 1e12),
        ("matmul_flops", "TFLOP/s", 1e12),
        ("tokens_per_s", "tokens/s", 1),
    ):
        if name in found:
            yield f"{found[name] / size:.3g} {unit}"
    for name in ("of_copy", "of_read", "of_matmul", "of_least"):
        if found.get(name) is not None:
            yield f"{100 * found[name]:.1f} % {name.replace('_', ' ')}"
    if found.get("maybe_cached"):
        yield "perhaps from the cache"


def number(value: float | str) -> str:
    """Of a result, which is a word where it is not finite."""
    return value if isinstance(value, str) else f"{value:.2e}"


def tuning_rows(timed: Mapping[str, Found], cuts: Mapping[str, Found], family: str) -> dict[str, dict[Shape, Any]]:
    """Rows for tuning.DECODE and tuning.PREFILL: for each shape the cut that is fastest over all its specs.

    `timed` are items of the parts decode and prefill, `cuts` those of tuning, all by name. A cut counts where all the
    shape's specs were timed with it; a decode's splits are not in the table, so the best number for each spec counts.
    A shape has no row where the rule's own cut is about as fast.
    """
    rules: dict[str, tuple[Any, float]] = {}
    times: dict[str, dict[Any, float]] = defaultdict(dict)
    for items, is_rule in ((timed, True), (cuts, False)):
        for name, found in items.items():
            if "seconds" not in found or not name.startswith(family) or found["pages"] != "scattered":
                continue
            cut = _row(found["config"])
            if is_rule:
                rules[found["spec"]] = (cut, found["seconds"])
            before = times[found["spec"]].get(cut, math.inf)
            times[found["spec"]][cut] = min(before, found["seconds"])
    rows: dict[str, dict[Shape, Any]] = {"DECODE": {}, "PREFILL": {}}
    for (shape, kind), specs in _by_shape(rules).items():
        common = set.intersection(*(set(times[spec]) for spec in specs))
        totals = {cut: sum(math.log(times[spec][cut]) for spec in specs) / len(specs) for cut in common}
        best = min(totals, key=totals.__getitem__)
        rule = rules[specs[0]][0]
        if best != rule and totals[best] < totals[rule] - math.log(GAIN):
            rows["DECODE" if kind is DecodeConfig else "PREFILL"][shape] = best
    return rows


def _row(config: str) -> DecodeConfig | PrefillConfig:
    """A cut from its text, splits left out."""
    name, _, rest = config.removesuffix(")").partition("(")
    values = {key: int(value) for key, value in (part.split("=") for part in rest.split(", "))}
    return DecodeConfig(**values | {"splits": 1}) if name == "DecodeConfig" else PrefillConfig(**values)


def _by_shape(rules: Mapping[str, tuple[Any, float]]) -> dict[tuple[Shape, type], list[str]]:
    found: dict[tuple[Shape, type], list[str]] = defaultdict(list)
    for name, (cut, _) in rules.items():
        spec: Spec | None = SPECS.get(name)
        if spec is not None:
            shape = Shape(spec.heads.padded_dim, spec.heads.group, spec.page_tokens)
            found[shape, type(cut)].append(name)
    return found


def tuning_text(rows: Mapping[str, Mapping[Shape, Any]], gpu: str) -> str:
    """The rows as tuning.py has them."""
    lines = []
    for table, found in rows.items():
        lines += [f"{table}[{gpu!r}]:", *(f"    {_call(shape)}: {_call(cut)}," for shape, cut in found.items())]
        lines += [] if found else ["    (the rule's cuts, as far as others were timed)"]
    return "\n".join(lines)


def _call(value: Any) -> str:
    """Shape(128, 4, 16), not its field names."""
    numbers = value if isinstance(value, tuple) else (getattr(value, name) for name in value.__dataclass_fields__)
    return f"{type(value).__name__}({', '.join(map(str, numbers))})"
