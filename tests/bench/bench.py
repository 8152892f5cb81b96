"""Compares OpenAI-compatible servers on this machine, in turn, in one run.

    python tests/bench/bench.py \\
        --peer 'andes-jax=http://127.0.0.1:8000=andes-jax serve --port 8000' \\
        --peer 'vllm=http://127.0.0.1:8100=$VLLM_SERVER' --reference vllm --rounds 2

A command is run by a shell and recorded as it was typed, so put paths of one machine into environment variables.
Only one server runs at a time. A sample is dropped from the medians, but kept in the JSON file, when other processes
used more than --max-other of the CPUs while it ran: two cores shared with anything else measure the sharing.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
from load_client import LoadClient, LoadError, Sample, TokenRange, choose_cells, first_model, measure
from machine import describe_machine, memory_mib
from peers import Peer, PeerError, running, server_version
from report import PeerResult, markdown, speed_ratio, summarize

OWN_SERVER = "andes-jax=http://127.0.0.1:8000=andes-jax serve --port 8000"
RESULTS = Path(__file__).resolve().parent / "results"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Peer.parse, action="append", metavar="NAME=URL=COMMAND", help="default: ours")
    parser.add_argument("--reference", default="", help="peer that ratios refer to (default: the first)")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each cell a round, after one warm-up")
    parser.add_argument("--rounds", type=int, default=1, help="A B becomes A B A B, against drift of the machine")
    parser.add_argument("--retries", type=int, default=2, help="further tries a sample when others used the CPUs")
    parser.add_argument("--max-other", type=float, default=0.05, help="share of the CPUs, 0 to 1")
    parser.add_argument("--cells", default="", help="comma-separated names (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the prompts, the same for all peers")
    parser.add_argument("--ready-timeout", type=float, default=900.0, help="seconds a server may take to start")
    parser.add_argument("--name", default="", help="of the result files (default: the peers' names)")
    parser.add_argument("--note", default="", help="remark that goes into the results")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    arguments.peer = arguments.peer or [Peer.parse(OWN_SERVER)]
    names = [peer.name for peer in arguments.peer]
    arguments.reference = arguments.reference or names[0]
    arguments.name = arguments.name or "-".join(names)
    if len(set(names)) != len(names) or arguments.reference not in names:
        parser.error("peer names must differ, and --reference must be one of them")
    try:
        arguments.cells = choose_cells(arguments.cells)
    except ValueError as error:
        parser.error(str(error))
    return arguments


async def _measure_round(peer: Peer, server_pid: int, round_number: int, arguments: argparse.Namespace) -> list[Sample]:
    client = LoadClient(peer.url, await first_model(peer.url), TokenRange(), [server_pid], arguments.seed)
    samples: list[Sample] = []
    try:
        for cell in arguments.cells:
            samples += await measure(
                client, cell, round_number, arguments.repeat, arguments.max_other, arguments.retries
            )
    finally:
        await client.close()
    return samples


def _run_peer(peer: Peer, result: PeerResult, round_number: int, arguments: argparse.Namespace) -> None:
    """Starts one server, measures it and stops it; adds what was measured to `result`."""
    print(f"round {round_number}: {peer.name}", flush=True)
    log = Path(tempfile.gettempdir()) / f"bench-{peer.name}.log"
    started = time.monotonic()
    with running(peer, arguments.ready_timeout, log) as server_pid:
        result.ready_s.append(round(time.monotonic() - started, 1))
        result.version = server_version(peer)
        result.samples += asyncio.run(_measure_round(peer, server_pid, round_number, arguments))
        result.memory_mib = max(result.memory_mib, memory_mib([server_pid]))


def _document(results: list[PeerResult], arguments: argparse.Namespace) -> dict[str, Any]:
    """The content of the JSON file: everything needed to repeat the run and to check its medians."""
    reference = next(result for result in results if result.name == arguments.reference)
    peers = []
    for result in results:
        cells = {}
        for cell in arguments.cells:
            summary = summarize(result.samples, cell, arguments.max_other)
            base = summarize(reference.samples, cell, arguments.max_other)
            cells[cell.name] = {**asdict(summary), "ratio": speed_ratio(cell, summary.median, base.median)}
        peers.append({**asdict(result), "cells": cells})
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "note": arguments.note,
        "machine": describe_machine(),
        "settings": {key: getattr(arguments, key) for key in ("repeat", "rounds", "retries", "max_other", "seed")},
        "reference": arguments.reference,
        "cells": [{**asdict(cell), "unit": cell.unit} for cell in arguments.cells],
        "peers": peers,
    }


def _write(results: list[PeerResult], arguments: argparse.Namespace) -> str:
    """Writes <name>.json and <name>.md into the results folder, over those of an earlier call; returns the table."""
    document = _document(results, arguments)
    table = markdown(results, arguments.cells, arguments.reference, arguments.max_other)
    facts = {**document["machine"], "date": document["date"], **document["settings"]}
    lines = [f"- {key}: {value}" for key, value in facts.items()]
    lines += [f"- {result.name} {result.version}: `{result.command}`" for result in results]
    text = "\n".join([table, *lines, "", arguments.note]).rstrip()
    (arguments.out / f"{arguments.name}.json").write_text(json.dumps(document, indent=1) + "\n")
    (arguments.out / f"{arguments.name}.md").write_text(text + "\n")
    return table


def main() -> int:
    """Runs all rounds; the files are written after each server, so that a later failure loses nothing measured."""
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = {peer.name: PeerResult(peer.name, peer.url, peer.command) for peer in arguments.peer}
    table = ""
    for round_number in range(1, arguments.rounds + 1):
        for peer in arguments.peer:
            try:
                _run_peer(peer, results[peer.name], round_number, arguments)
            except (PeerError, LoadError, httpx.HTTPError) as error:
                print(f"{peer.name}: {type(error).__name__}: {error}", file=sys.stderr)
                return 1
            table = _write(list(results.values()), arguments)
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
