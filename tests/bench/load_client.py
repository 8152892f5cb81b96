"""Streaming load client for any server with an OpenAI-compatible `/v1/completions`.

It sends prompts as lists of random token ids, greedy and with `ignore_eos`, so that every server does the same
amount of work whatever its tokenizer, and no two prompts of a run share a prefix that a cache could reuse.
Tokens are counted by the server's own `usage`, never by counting chunks: a chunk may carry several tokens or none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Literal

import httpx
from machine import other_cpu_fraction, read_cpu

Kind = Literal["decode", "first_token", "throughput"]


class LoadError(RuntimeError):
    """The server refused a request, or did not generate what was asked for."""


@dataclass(frozen=True)
class Cell:
    """One figure to measure: `requests` prompts of `prompt_tokens`, `output_tokens` generated for each.

    `decode` and `first_token` send them one after another and take the median over them; `throughput` sends all at
    once. Units: decode and throughput in tokens per second, first_token in milliseconds.
    """

    name: str
    kind: Kind
    prompt_tokens: int
    output_tokens: int
    requests: int

    @property
    def unit(self) -> str:
        return "ms" if self.kind == "first_token" else "tok/s"

    @property
    def higher_is_better(self) -> bool:
        return self.kind != "first_token"


# Several first-token requests make one sample: a single one lasts too few clock ticks to tell whose CPU time it was.
CELLS = (
    Cell("b1", "decode", 128, 128, 1),
    Cell("ttft512", "first_token", 512, 1, 4),
    Cell("ttft2048", "first_token", 2048, 1, 2),
    Cell("batch8", "throughput", 256, 128, 8),
    Cell("batch32", "throughput", 256, 128, 32),
)


@dataclass(frozen=True)
class TokenRange:
    """Ids prompts are drawn from: `low <= id < high`, above special tokens and inside every vocabulary compared."""

    low: int = 1000
    high: int = 30000


@dataclass(frozen=True)
class Timing:
    """One finished request: seconds from sending to the first and to the last token, and the tokens it generated."""

    first_token_s: float
    last_token_s: float
    output_tokens: int


@dataclass(frozen=True)
class Sample:
    """One repetition of a cell: its value in the cell's unit, how long it took, and how busy others kept the CPUs."""

    cell: str
    value: float
    duration_s: float
    other_cpu: float
    round: int
    repetition: int


def random_prompt(cell: Cell, tokens: TokenRange, seed: str) -> list[int]:
    """`cell.prompt_tokens` ids that depend on nothing but the arguments; another seed gives another first id on."""
    return random.Random(f"{seed}/{cell.name}").choices(range(tokens.low, tokens.high), k=cell.prompt_tokens)


class LoadClient:
    """Holds the connections to one server; `root_pids` are the processes whose CPU time counts as the measurement's."""

    def __init__(self, base_url: str, model: str, tokens: TokenRange, root_pids: list[int], seed: int) -> None:
        self.model = model
        self.tokens = tokens
        self.root_pids = root_pids
        self.seed = seed
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self.http = httpx.AsyncClient(base_url=base_url, timeout=600.0, limits=limits, trust_env=False)

    async def close(self) -> None:
        await self.http.aclose()

    async def complete(self, prompt: list[int], output_tokens: int) -> Timing:
        """Sends one streaming request and times it; raises LoadError if it did not yield exactly `output_tokens`."""
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        sent = time.perf_counter()
        first, last, generated = 0.0, 0.0, 0
        async with self.http.stream("POST", "/v1/completions", json=body) as response:
            if response.status_code != 200:
                raise LoadError(f"HTTP {response.status_code}: {(await response.aread())[:500]!r}")
            async for event, arrived in _events(response):
                if b'"error":' in event:
                    raise LoadError(f"error in the stream: {event[:500]!r}")
                # Parsing every chunk would take CPU from the server; only the first token and the usage matter.
                if first and b'"completion_tokens"' not in event:
                    last = arrived
                    continue
                chunk = json.loads(event)
                generated = (chunk.get("usage") or {}).get("completion_tokens", generated)
                choice = chunk["choices"][0] if chunk["choices"] else None
                if choice is None:
                    continue
                last = arrived
                if not first and (choice["text"] or choice.get("finish_reason")):
                    first = arrived
        if generated != output_tokens or not first:
            raise LoadError(f"asked for {output_tokens} tokens, usage says {generated}")
        return Timing(first - sent, last - sent, generated)

    async def sample(self, cell: Cell, round_number: int, repetition: int) -> Sample:
        """Measures `cell` once, with prompts that no other round, repetition or request uses."""
        seeds = [f"{self.seed}/{round_number}/{repetition}/{index}" for index in range(cell.requests)]
        prompts = [random_prompt(cell, self.tokens, seed) for seed in seeds]
        before = read_cpu(self.root_pids)
        start = time.perf_counter()
        if cell.kind == "throughput":
            timings = await asyncio.gather(*(self.complete(prompt, cell.output_tokens) for prompt in prompts))
        else:
            timings = [await self.complete(prompt, cell.output_tokens) for prompt in prompts]
        duration_s = time.perf_counter() - start
        other_cpu = other_cpu_fraction(before, read_cpu(self.root_pids))
        return Sample(cell.name, _value(cell, timings, duration_s), duration_s, other_cpu, round_number, repetition)


def _value(cell: Cell, timings: list[Timing], duration_s: float) -> float:
    """The cell's figure in its unit. Decode leaves out the first token, whose time is the prompt's."""
    if cell.kind == "throughput":
        return sum(timing.output_tokens for timing in timings) / duration_s
    if cell.kind == "first_token":
        return 1000.0 * statistics.median(timing.first_token_s for timing in timings)
    return statistics.median(
        (timing.output_tokens - 1) / (timing.last_token_s - timing.first_token_s) for timing in timings
    )


async def _events(response: httpx.Response) -> AsyncIterator[tuple[bytes, float]]:
    """Yields each server-sent event's data and its arrival on the `perf_counter` clock, in seconds, up to [DONE]."""
    pending = b""
    async for block in response.aiter_raw():
        arrived = time.perf_counter()
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or data == b"[DONE]":
                continue
            yield data, arrived


async def first_model(base_url: str) -> str:
    """The id of the first model that the server lists."""
    async with httpx.AsyncClient(base_url=base_url, timeout=30.0, trust_env=False) as http:
        response = await http.get("/v1/models")
        response.raise_for_status()
        return str(response.json()["data"][0]["id"])


def choose_cells(names: str) -> list[Cell]:
    """The cells of a comma-separated list of names, in the order of CELLS; an unknown name raises ValueError."""
    wanted = names.split(",") if names else [cell.name for cell in CELLS]
    unknown = set(wanted) - {cell.name for cell in CELLS}
    if unknown:
        raise ValueError(f"unknown cells {sorted(unknown)}; known: {[cell.name for cell in CELLS]}")
    return [cell for cell in CELLS if cell.name in wanted]


async def measure(
    client: LoadClient, cell: Cell, round_number: int, repeat: int, max_other_cpu: float = 1.0, retries: int = 0
) -> list[Sample]:
    """One warm-up, thrown away, then samples until `repeat` of them are quiet, or `repeat * (1 + retries)` are taken.

    A sample is quiet when others used at most `max_other_cpu` (0 to 1) of the CPUs. Returns all, the noisy ones too.
    """
    await client.sample(cell, round_number, 0)
    samples: list[Sample] = []
    quiet = 0
    while quiet < repeat and len(samples) < repeat * (1 + retries):
        sample = await client.sample(cell, round_number, len(samples) + 1)
        samples.append(sample)
        quiet += sample.other_cpu <= max_other_cpu
        print(f"  {cell.name}: {sample.value:.1f} {cell.unit}, others {sample.other_cpu:.1%}", file=sys.stderr)
    return samples


async def _main(arguments: argparse.Namespace) -> None:
    model = arguments.model or await first_model(arguments.url)
    client = LoadClient(arguments.url, model, TokenRange(), arguments.server_pid, arguments.seed)
    try:
        cells = choose_cells(arguments.cells)
        samples = [sample for cell in cells for sample in await measure(client, cell, 1, arguments.repeat)]
    finally:
        await client.close()
    print(json.dumps([asdict(sample) for sample in samples], indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure a running OpenAI-compatible server; samples go to stdout.")
    parser.add_argument("--url", required=True, help="base address, without /v1")
    parser.add_argument("--model", default="", help="model id (default: the first that the server lists)")
    parser.add_argument("--cells", default="", help=f"comma-separated, of {', '.join(cell.name for cell in CELLS)}")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each cell after its warm-up")
    parser.add_argument("--server-pid", type=int, action="append", default=[], help="for the share of other processes")
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(_main(parser.parse_args()))
