"""Traces of every format, and lines that are none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from andes_jax.request import Tier
from andes_jax.workload.traces import TraceError, TraceRow, read_trace

SAMPLES = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture
def write(tmp_path):
    def written(*lines: str, name: str = "trace") -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return written


def test_the_samples_are_read_whole_and_in_order():
    azure, mooncake = read_trace(SAMPLES / "azure2023_conv.csv"), read_trace(SAMPLES / "mooncake_synthetic.csv")
    assert (len(azure), len(mooncake)) == (40, 30)
    assert azure[:2] == [TraceRow(0.0, 374, 44), TraceRow(4.315, 396, 109)]
    assert mooncake[0] == TraceRow(0.0, 40160, 6)
    assert all(first.arrived_s <= second.arrived_s for first, second in zip(azure, azure[1:], strict=False))


def test_compressed_traces_are_read_alike(tmp_path):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress((SAMPLES / "azure2023_conv.csv").read_bytes()))
    assert read_trace(path) == read_trace(SAMPLES / "azure2023_conv.csv")


def test_azure_traces_of_both_years_as_published(write):
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    of_2023 = write(*rows, "2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109")
    assert read_trace(of_2023) == [TraceRow(0.0, 374, 44), TraceRow(pytest.approx(4.314579, abs=1e-6), 396, 109)]
    of_2024 = write(*rows, "2024-05-10 00:00:01.000000+00:00,7,8", "2024-05-10 00:00:00.500000+00:00,5,6")
    assert read_trace(of_2024) == [TraceRow(0.0, 5, 6), TraceRow(0.5, 7, 8)]


def test_lengths_alone_have_no_arrivals(write):
    path = write("conversation,turn,prompt_tokens,output_tokens", "1,0,17,73", "1,1,62,448")
    assert read_trace(path) == [TraceRow(None, 17, 73), TraceRow(None, 62, 448)]


def test_mooncake_traces_as_published(write):
    lines = (
        {"timestamp": 1500, "input_length": 9, "output_length": 4, "hash_ids": [1, 2]},
        {"timestamp": 3000, "input_length": 5, "output_length": 2},
    )
    assert read_trace(write(*map(json.dumps, lines))) == [TraceRow(1.5, 9, 4), TraceRow(3.0, 5, 2)]


def test_a_request_log_is_read_in_order_of_arrival(write):
    """Its lines are written as replies end; a refused request has no reply whose length could be replayed."""
    lines = (
        {"id": "b", "arrived": 1700000002.25, "tier": "batch", "prompt_tokens": 5, "output_tokens": 6, "explain": []},
        {"id": "c", "arrived": 1700000002.5, "tier": "realtime", "prompt_tokens": 5, "output_tokens": 0},
        {"id": "a", "arrived": 1700000000.0, "tier": "realtime", "prompt_tokens": 3, "output_tokens": 4, "qoe": None},
    )
    expected = [TraceRow(0.0, 3, 4, Tier.REALTIME), TraceRow(2.25, 5, 6, Tier.BATCH)]
    assert read_trace(write(*map(json.dumps, lines))) == expected


def test_plain_traces_may_name_tiers_and_hold_what_spreadsheets_write(write):
    path = write("\ufeffarrived_s, Prompt_Tokens,output_tokens,tier", '"1",5.0,6,Batch', "", "0,7,8,")
    assert read_trace(path) == [TraceRow(0.0, 7, 8), TraceRow(1.0, 5, 6, Tier.BATCH)]


HEADER = "arrived_s,prompt_tokens,output_tokens"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER, "0,1,2", "0,x,2"], "line 3: prompt_tokens is 'x', no number"),
        ([HEADER, "0,1,2.5"], "line 2: output_tokens is '2.5'"),
        ([HEADER, "0,1,-2"], "line 2: output_tokens is '-2'"),
        ([HEADER, "-1,1,2"], "line 2: arrived_s is -1.0"),
        ([HEADER, "nan,1,2"], "line 2: arrived_s is nan"),
        ([HEADER, "inf,1,2"], "line 2: arrived_s is inf"),
        ([HEADER, "1e300,1,2"], "line 2: arrived_s is 1e+300"),
        ([HEADER, "0,1e18,2"], "line 2: prompt_tokens is '1e18', and should be a whole number from 0 to 10000000"),
        ([HEADER, "0,1,20000000000"], "line 2: output_tokens is '20000000000'"),
        ([HEADER, "0,1"], "line 2: 2 columns, but the header has 3"),
        ([HEADER + ",tier", "0,1,2,urgent"], "line 2: tier is 'urgent', none of realtime"),
        ([HEADER], "holds no request"),
        ([HEADER, "0,0,2"], "holds no request"),
        (["a,b", "1,2"], "line 2: found a, b; a trace is CSV"),
        (["TIMESTAMP,ContextTokens,GeneratedTokens", "noon,1,2"], "line 2: TIMESTAMP is 'noon'"),
        (['{"timestamp": 1, "input_length": 2, "output_length": 3}', "{"], "line 2: no JSON"),
        (['{"timestamp": 1, "input_length": 2, "output_length": 3}', "[1]"], "line 2: no JSON object"),
        (['{"timestamp": 1, "input_length": 2, "output_length": 3}', "{}"], "line 2: timestamp is None, no number"),
        (['{"timestamp": 1, "input_length": true, "output_length": 3}'], "line 1: input_length is True, no number"),
        (["", " "], "is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_and_line(write, lines, message):
    path = write(*lines)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(path) in str(caught.value) and message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    damaged, binary = tmp_path / "damaged.gz", tmp_path / "binary"
    damaged.write_bytes(gzip.compress(b"arrived_s,prompt_tokens,output_tokens\n0,1,2\n" * 99)[:-12])
    binary.write_bytes(b"\xff\xfe\x00")
    for path, message in ((tmp_path / "none", "cannot read"), (damaged, "damaged"), (binary, "is no text")):
        with pytest.raises(TraceError, match=message):
            read_trace(path)
