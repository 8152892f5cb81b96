"""How good and how fast summaries are: map and reduce beside a truncated prompt and the text's own beginning.

    python -m tests.bench.summaries --docs FOLDER --sets squality_dev,peps --limit 4 --output build/summaries

FOLDER holds SET.jsonl.gz with a line for each document: id, text, and summaries, a list of references. A server is
started for the run, unless --server names one. Each set is summarized by a job in --output, so that a run that was cut
off goes on; texts that need no truncating are summarized once. The report is written at the end, to report.md there and
to the terminal. --loop N also summarizes the first N documents of each set once with many calls at a time and once call
by call, and says how many times as fast that is.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import httpx

from andes_jax.commands.serve import end_on_sigterm
from andes_jax.jobs.client import HttpClient, server_http
from andes_jax.jobs.summaries.budget import budget_of
from andes_jax.jobs.summaries.language import is_chinese
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.prompts import Prompts
from andes_jax.jobs.summaries.splitting import pieces_of
from andes_jax.jobs.tokens import TokenCounter
from andes_jax.jobs.waiting import Patience
from tests.bench.rouge import KINDS, lead, length_of, rouge
from tests.end_to_end.server_process import metrics

HEADLINE = 30  # words or characters: references that are shorter are headlines
TRUNCATED_PARTS = 40  # of what fits into a prompt: texts are truncated to one of these
_SHOWN = ("job", "calls", "prompt_tokens", "completion_tokens", "elapsed_s", "tokens_per_s")
METHODS = ("lead", "truncated", "map-reduce")


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Raises SystemExit for words that make no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, required=True, help="the folder of the documents")
    parser.add_argument("--sets", help="names of files without .jsonl.gz, with commas between them; all unless given")
    parser.add_argument("--limit", type=int, help="documents of each set")
    parser.add_argument("--loop", type=int, default=0, metavar="N", help="also compare the pace with a plain loop")
    parser.add_argument("--output", type=Path, default=Path("build/summaries"))
    parser.add_argument("--server", help="a server to ask in place of one that is started")
    parser.add_argument("--serve", default="", help="flags of the server that is started, in one word")
    parser.add_argument("--chunk-tokens", help="of map and reduce; what fits unless given")
    parser.add_argument(
        "--flags", default="", help="flags of summarize, in one word, such as '--frequency-penalty 0.5'"
    )
    arguments = parser.parse_args(words)
    found = sorted(path.name.removesuffix(".jsonl.gz") for path in arguments.docs.glob("*.jsonl.gz"))
    arguments.sets = arguments.sets.split(",") if arguments.sets else found
    for name in arguments.sets:
        if name not in found:
            parser.error(f"no {name!r} in {arguments.docs}; there are {', '.join(found)}")
    return arguments


@contextmanager
def started_server(flags: list[str]) -> Iterator[str]:
    """`andes-jax serve` with the settings of jobs; its address."""
    command = [sys.executable, "-m", "andes_jax.cli", "serve", "--port", "0", "--config", "jobs", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                print(line, end="", file=sys.stderr)
                if "listening on " in line:
                    threading.Thread(target=_pass_on, args=(process.stderr,), daemon=True).start()
                    yield line.split("listening on ")[1].split()[0]
                    return
            raise SystemExit("the server did not start")
        finally:
            process.terminate()
            process.wait()


def _pass_on(lines: TextIO) -> None:
    for line in lines:
        print(line, end="", file=sys.stderr)


class Watch:
    """How many of a server's slots batch work holds, asked for twice a second."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.shares: list[float] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            try:
                values = metrics(self._url)
                running = sum(value for name, value in values.items() if name.startswith("andes_engine_running{"))
                if running or self.shares:  # the client has started
                    self.shares.append(running / max(running + values["andes_engine_slots_free"], 1))
            except (httpx.HTTPError, AssertionError, KeyError):
                continue


def summarize(source: Path, output: Path, job: Path, flags: list[str], url: str, times: Path) -> list[dict[str, Any]]:
    """Run a job, note what it took, and give its rows. Raises SystemExit where it fails."""
    command = [sys.executable, "-m", "andes_jax.cli", "summarize", str(source), "--output", str(output)]
    command += ["--job", str(job), "--server", url, "--progress", "json", *flags]
    with Watch(url) as watch, subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        last = ""
        for line in process.stderr:
            last = line
            print(f"{output.name}: {line}", end="", file=sys.stderr)
    if process.returncode not in (0, 3):
        raise SystemExit(f"{output}: {last}")
    took = json.loads(last)
    if took["calls"]:
        took |= {"job": output.name, "busy": round(statistics.fmean(watch.shares or [0.0]), 3)}
        with open(times, "a") as file:
            file.write(json.dumps(took) + "\n")
    return [json.loads(line) for line in output.read_text().split("\n") if line]


def documents_of(path: Path, limit: int | None) -> list[dict[str, Any]]:
    """The first documents of a set."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")
    return [json.loads(line) for line in lines if line][:limit]


def flags_of(documents: list[dict[str, Any]]) -> tuple[list[str], SummaryOptions]:
    """Options that ask for what the references of a set are like."""
    middle = round(statistics.median(length_of(each) for row in documents for each in row["summaries"]))
    style = "headline" if middle < HEADLINE else "paragraph"
    return ["--style", style, "--words", str(middle)], SummaryOptions(style=style, words=middle)


def write_lines(path: Path, documents: list[dict[str, Any]], texts: list[str]) -> None:
    """Lines for summarize, the file untouched where it is there already."""
    lines = [json.dumps({"id": row["id"], "text": text}) for row, text in zip(documents, texts, strict=True)]
    content = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != content:
        path.write_text(content)


async def truncated(texts: list[str], options: SummaryOptions, url: str) -> list[str]:
    """Texts cut off where one prompt is full."""
    async with server_http(url) as http:
        client = HttpClient(http, patience=partial(Patience, 60.0))
        model, counter = await client.model(), TokenCounter(client)
        assert model.context_tokens is not None
        cut = []
        for text in texts:
            most = (await budget_of(Prompts.of(options, text), model.context_tokens, counter)).text
            kept, tokens = "", 0
            for piece in await pieces_of(text, max(1, most // TRUNCATED_PARTS), counter.text):
                tokens += piece.tokens
                if tokens > most:
                    break
                kept += piece.text
            cut.append(kept.strip() or text[:1])
    return cut


def compare(name: str, arguments: argparse.Namespace, url: str) -> list[str]:
    """Summaries of one set by every method; lines of the report."""
    output = arguments.output
    documents = documents_of(arguments.docs / f"{name}.jsonl.gz", arguments.limit)
    flags, options = flags_of(documents)
    flags += arguments.flags.split()
    texts = [row["text"] for row in documents]
    short = asyncio.run(truncated(texts, options, url))
    found: dict[str, list[str]] = {"lead": [lead(text, options.length) for text in texts]}
    failed, chunks = 0, 0
    cuts = ["--chunk-tokens", arguments.chunk_tokens] if arguments.chunk_tokens else []
    for method, given, more in (("truncated", short, []), ("map-reduce", texts, cuts)):
        source = output / f"{name}-{method}.jsonl"
        write_lines(source, documents, given)
        place = output / f"{name}-{method}-rows.jsonl"
        rows = summarize(source, place, output / f"{name}.job", [*flags, *more], url, output / "times.jsonl")
        found[method] = [row["summary"] or "" for row in rows]
        failed += sum(row["error"] is not None for row in rows)
        chunks = sum(row.get("chunks", 0) for row in rows)
    form = "characters" if is_chinese(texts[0]) else "words"
    lines = [
        f"\n## {name}\n",
        f"{len(documents)} documents in {chunks} chunks, {options.length} {form}, {failed} failed\n",
    ]
    lines += ["| | " + " | ".join(f"ROUGE-{kind}" for kind in KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for method in METHODS:
        scores = [rouge(said, row["summaries"]) for said, row in zip(found[method], documents, strict=True)]
        means = " | ".join(f"{100 * statistics.fmean(score[kind] for score in scores):.1f}" for kind in KINDS)
        lines.append(f"| {method} | {means} |")
    if arguments.loop:
        lines.append(pace(name, arguments, documents[: arguments.loop], [*flags, *cuts], url))
    return lines


def pace(name: str, arguments: argparse.Namespace, documents: list[dict[str, Any]], flags: list[str], url: str) -> str:
    """The same documents with many calls at a time and call by call: a line about both."""
    folder = arguments.output / f"{name}-loop"
    tokens_per_s = []
    for parallel in ([], ["--parallel", "1"]):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # A beginning of its own keeps each run's texts out of the other's prefix cache.
        texts = [f"{len(parallel)}. {row['text']}" for row in documents]
        write_lines(folder / "texts.jsonl", documents, texts)
        times = folder / "times.jsonl"
        summarize(folder / "texts.jsonl", folder / "rows.jsonl", folder / "job", [*flags, *parallel], url, times)
        tokens_per_s.append(json.loads(times.read_text())["tokens_per_s"])
    many, one = tokens_per_s
    return f"\nMany at a time {many:.0f} tokens/s, call by call {one:.0f}: {many / one:.1f} times as fast.\n"


def times_table(path: Path) -> list[str]:
    """What every run took."""
    head = "| job | calls | prompt tokens | reply tokens | seconds | tokens/s | slots in use |"
    lines = ["\n## Runs\n", head, "|---" * 7 + "|"]
    for line in path.read_text().splitlines() if path.exists() else []:
        run = json.loads(line)
        cells = [run[each] for each in _SHOWN]
        lines.append(f"| {' | '.join(map(str, cells))} | {100 * run['busy']:.0f} % |")
    return lines


def main(words: list[str] | None = None) -> int:
    arguments = arguments_of(words)
    arguments.output.mkdir(parents=True, exist_ok=True)
    server = nullcontext(arguments.server) if arguments.server else started_server(arguments.serve.split())
    with end_on_sigterm(), server as url:
        lines = ["# Summaries\n", f"ROUGE F1 in percent, the best of each document's references; {' '.join(METHODS)}."]
        for name in arguments.sets:
            lines += compare(name, arguments, url)
    report = "\n".join([*lines, *times_table(arguments.output / "times.jsonl")]) + "\n"
    (arguments.output / "report.md").write_text(report)
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
