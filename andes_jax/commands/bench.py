"""andes-jax bench: replays a workload against a running server and says what its readers got."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from andes_jax.failure import UsageError


def _option(text: str, *names: str, **bounds: float) -> Any:
    return typer.Option(*names, help=text, **bounds)  # type: ignore[arg-type]


_Number = float | None
_Url = Annotated[str, _option("The server's address, with or without /v1.")]
_Trace = Annotated[Path | None, _option("Whose requests to send: a trace, or a server's request log.")]
_Start = Annotated[float, _option("Where in the trace to begin, in seconds.", min=0)]
_End = Annotated[_Number, _option("Where in the trace to end, in seconds.")]
_Rate = Annotated[float, _option("Times as fast as the trace; with --arrivals, requests per second.")]
_Arrivals = Annotated[str | None, _option("Draw arrivals: poisson, gamma:CV or on_off:ON_SECONDS/OFF_SECONDS.")]
_Duration = Annotated[_Number, _option("Send nothing after so many seconds.")]
_Tiers = Annotated[str | None, _option("Shares such as realtime=0.7,streaming=0.3; else the trace's own tiers.")]
_Readers = Annotated[str, _option("How fast people read: paper, fast, none, or tokens per second.")]
_Scale = Annotated[float, _option("Prompts and replies are so many times as long.")]
_Limit = Annotated[int | None, _option("Leave out requests with more tokens; else those the server cannot hold.")]
_Cancel = Annotated[float, _option("Share of readers who leave early.", min=0, max=1)]
_Seed = Annotated[int, _option("The same seed sends the same requests.", min=0)]
_Model = Annotated[str | None, _option("Model to ask for; else the first that the server lists.")]
_Key = Annotated[str | None, _option("The server's key.")]
_Andes = Annotated[bool | None, _option("Send tiers and expectations; else to andes-jax alone.", "--andes/--no-andes")]
_Ids = Annotated[str, _option("Token ids that prompts are drawn from, LOW:HIGH.")]
_Shared = Annotated[int, _option("First tokens that all prompts share.", min=0)]
_Drain = Annotated[float, _option("Seconds that replies get after the last request.", min=0)]
_Output = Annotated[Path | None, _option("Write every request as a JSON line to this file.")]
_Plot = Annotated[Path | None, _option("Draw the run over time into this PNG file.")]
_Json = Annotated[bool, _option("Print the figures as JSON.", "--json")]
_Compare = Annotated[tuple[Path, Path] | None, _option("Print two files of --output side by side, and send nothing.")]


def bench(
    url: _Url = "http://127.0.0.1:8000",
    trace: _Trace = None,
    start: _Start = 0.0,
    end: _End = None,
    rate: _Rate = 1.0,
    arrivals: _Arrivals = None,
    duration: _Duration = None,
    tiers: _Tiers = None,
    readers: _Readers = "paper",
    scale: _Scale = 1.0,
    limit_tokens: _Limit = None,
    cancel_share: _Cancel = 0.0,
    seed: _Seed = 1,
    model: _Model = None,
    api_key: _Key = None,
    andes: _Andes = None,
    token_ids: _Ids = "1000:30000",
    shared_prefix: _Shared = 0,
    drain: _Drain = 120.0,
    output: _Output = None,
    plot: _Plot = None,
    as_json: _Json = False,
    compare: _Compare = None,
) -> None:
    """Send a trace's requests to a server as they came, and say what readers got: QoE, TTFT, ITL, goodput.

    Works with every server of the OpenAI API that has /v1/completions. The exit code is 1 when requests failed.

    Examples:

      andes-jax bench --trace azure.csv --end 300 --rate 0.5 --tiers realtime=0.7,streaming=0.3
      andes-jax bench --trace sharegpt.csv.gz --arrivals poisson --rate 2 --duration 120 --output run.jsonl
      andes-jax bench --compare before.jsonl after.jsonl
    """
    from andes_jax.commands.bench_run import Measurement, finish, print_comparison
    from andes_jax.loadtest.plot import check_plots
    from andes_jax.loadtest.prompts import Prompts, parse_token_ids
    from andes_jax.workload.arrivals import Workload
    from andes_jax.workload.process import parse_process
    from andes_jax.workload.readers import parse_readers, parse_tiers
    from andes_jax.workload.traces import read_trace

    if compare is not None:
        print_comparison(*compare)
        return
    if trace is None:
        raise UsageError("bench needs the requests to send; give --trace FILE")
    if plot is not None:
        check_plots()
    process = None if arrivals is None else parse_process(arrivals)
    shares = None if tiers is None else parse_tiers(tiers)
    workload = Workload(
        rate, process, start, end, duration, shares, parse_readers(readers), scale, limit_tokens, cancelled=cancel_share
    )
    prompts = Prompts(seed, *parse_token_ids(token_ids), shared_prefix=shared_prefix)
    task = Measurement(url, read_trace(trace), workload, prompts, drain)
    run = asyncio.run(task.measure(model=model, api_key=api_key, andes=andes))
    run = replace(run, about={**run.about, "trace": str(trace), "tiers": tiers, "readers": readers, "seed": seed})
    finish(run, output=output, plot=plot, as_json=as_json, stopped=task.stopped)
