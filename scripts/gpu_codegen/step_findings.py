"""What the compiler made of a whole decode step, and whether that is good enough: pools in place, few launches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kernels_pallas.paged_attention.mosaic.gpus import Gpu

# Temporary memory may be this share of one layer's pool: a copy of a pool would be more than all of it.
MOST_TEMPORARY = 0.25
# Launches of a layer, as XLA fuses it: norms, products, RoPE, the write of keys and values, attention, the merge of its
# splits, the MLP. On an A10G it finds it cheaper to sum the parts of new keys and values before they are written.
MOST_LAYER_LAUNCHES = {"a10g": 16, "a100": 13, "h100": 14, "h200": 14}
MOST_OTHER_LAUNCHES = 8  # embedding, RoPE's angles, the last norm, the logits


@dataclass(frozen=True, slots=True)
class StepFindings:
    """Of one compiled step."""

    layers: int
    pool_bytes: int  # of all layers' pools
    aliased_bytes: int  # of results that take the place of arguments
    temporary_bytes: int
    graphs: int  # CUDA graphs (XLA's command buffers) that the step is launched as
    outside: int  # launches that are in no graph
    attentions: int  # launches of Mosaic kernels
    writes: int  # launches that scatter, keys and values into a pool
    copies: int  # launches that only copy
    launches: int  # in all, those in graphs counted singly


def read(text: str) -> StepFindings:
    """From what `compile_step` prints: name=number lines and XLA's list of thunks, where those of a graph are indented.

    Raises ValueError where a number or the list is missing.
    """

    def number(name: str) -> int:
        found = re.findall(rf"^{name}=(\d+)$", text, re.MULTILINE)
        if len(found) != 1:
            raise ValueError(f"expected one {name} in the compiler's output, found {len(found)}")
        return int(found[0])

    thunks = re.findall(r"^( *)\d+: k(\w+)(.*)$", text, re.MULTILINE)
    if not thunks:
        raise ValueError("no launches in the compiler's output")
    kinds = Counter(kind for _, kind, _ in thunks)
    return StepFindings(
        layers=number("layers"),
        pool_bytes=number("pool_bytes"),
        aliased_bytes=number("aliased_bytes"),
        temporary_bytes=number("temporary_bytes"),
        graphs=kinds["CommandBuffer"],
        outside=sum(kind != "CommandBuffer" and not indent for indent, kind, _ in thunks),
        attentions=kinds["CustomCall"],
        writes=sum("scatter" in rest for _, _, rest in thunks),
        copies=sum("Copy" in kind or "copy" in rest for _, kind, rest in thunks),
        launches=len(thunks) - kinds["CommandBuffer"],
    )


def faults(findings: StepFindings, gpu: Gpu) -> Iterator[str]:
    """What must not be."""
    layers, layer_bytes = findings.layers, findings.pool_bytes // findings.layers
    if findings.aliased_bytes < findings.pool_bytes:
        yield f"updates {findings.aliased_bytes} bytes in place, the pools have {findings.pool_bytes}"
    if findings.temporary_bytes > MOST_TEMPORARY * layer_bytes:
        yield f"takes {findings.temporary_bytes} bytes beside its results; one layer's pool has {layer_bytes}"
    if findings.copies:
        yield f"launches {findings.copies} copies"
    if findings.graphs != 1 or findings.outside:
        yield f"is {findings.graphs} graphs and {findings.outside} launches outside them, not one graph"
    for name, count in (("attention", findings.attentions), ("a write of keys and values", findings.writes)):
        if count != layers:
            yield f"launches {name} {count} times in {layers} layers"
    most = layers * MOST_LAYER_LAUNCHES[gpu.name] + MOST_OTHER_LAUNCHES
    if findings.launches > most:
        yield f"launches {findings.launches} kernels, {most} are borne"
