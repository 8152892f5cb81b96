"""What a compiler says of a whole decode step is read, and judged by the gates."""

from __future__ import annotations

import dataclasses

import pytest

from kernels_pallas.paged_attention.mosaic.gpus import GPUS
from scripts.gpu_codegen.step_findings import faults, read

TEXT = """layers=2
pool_bytes=2097152
aliased_bytes=2097152
temporary_bytes=4096
000: kCommandBuffer [source | sink]
    001: kCustomKernel [source       | next=002 (5)] loop_gather_fusion grid: [1024, 1, 1] threads: [128, 1, 1]
    002: kCustomKernel [prev=001 (1) | next=003 (2)] input_scatter_fusion grid: [512, 1, 1] threads: [128, 1, 1]
    003: kCustomCall   [prev=002 (1) | next=004 (1)] kCustomCall
    004: kCustomKernel [prev=003 (2) | next=005 (2)] input_scatter_fusion grid: [512, 1, 1] threads: [128, 1, 1]
    005: kCustomCall   [prev=004 (1) | sink        ] kCustomCall
"""
GOOD = read(TEXT)


def test_numbers_and_launches_are_read():
    assert (GOOD.layers, GOOD.pool_bytes, GOOD.aliased_bytes, GOOD.temporary_bytes) == (2, 2**21, 2**21, 4096)
    assert (GOOD.graphs, GOOD.outside, GOOD.launches) == (1, 0, 5)
    assert (GOOD.attentions, GOOD.writes, GOOD.copies) == (2, 2, 0)


def test_launches_outside_the_graph_and_copies_are_seen():
    more = read(TEXT + "006: kCopy  copy.1\n007: kCustomKernel wrapped_copy grid: [1, 1, 1]\n")
    assert (more.graphs, more.outside, more.launches, more.copies) == (1, 2, 7, 2)


@pytest.mark.parametrize("missing", ["pool_bytes=2097152\n", "temporary_bytes=4096\n"])
def test_a_missing_number_is_an_error(missing):
    with pytest.raises(ValueError, match=f"expected one {missing.split('=')[0]}"):
        read(TEXT.replace(missing, ""))


def test_no_launches_are_an_error():
    with pytest.raises(ValueError, match="no launches"):
        read(TEXT.split("000")[0])


def test_a_good_step_has_no_faults():
    assert [list(faults(GOOD, gpu)) for gpu in GPUS.values()] == [[]] * len(GPUS)


@pytest.mark.parametrize(
    "change, fault",
    [
        (dict(aliased_bytes=2**20), "updates 1048576 bytes in place, the pools have 2097152"),
        (dict(temporary_bytes=2**20), "takes 1048576 bytes beside its results"),
        (dict(copies=1), "launches 1 copies"),
        (dict(graphs=2), "2 graphs and 0 launches outside"),
        (dict(outside=3), "1 graphs and 3 launches outside"),
        (dict(attentions=3), "attention 3 times in 2 layers"),
        (dict(writes=0), "a write of keys and values 0 times in 2 layers"),
        (dict(launches=37), "launches 37 kernels, 36 are borne"),
    ],
)
def test_each_gate_closes(change, fault):
    (found,) = faults(dataclasses.replace(GOOD, **change), GPUS["h100"])
    assert fault in found
