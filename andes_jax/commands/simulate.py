"""andes-jax simulate: what policies do to readers, on a machine one need not have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from andes_jax.commands.study import takes_study
from andes_jax.failure import UsageError

if TYPE_CHECKING:
    from andes_jax.simulation.sweep import Study

MOST_RATES = 200
DEFAULT_STEP = 0.1


@takes_study
def simulate(
    study: Study,
    policy: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="Policies to compare: three_tier, fcfs, round_robin, andes_paper, sjf_oracle; with changes as in "
            "three_tier:beta=0:max_preempt=0.",
        ),
    ] = "three_tier,fcfs",
    rate: Annotated[
        str,
        typer.Option(
            metavar="FROM:TO[:STEP]",
            help="Rates to try, or a list with commas: times the trace's own rate, or requests per second with "
            f"--arrivals. STEP is {DEFAULT_STEP} unless given.",
        ),
    ] = "1",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each policy at each rate, by chance alike.")] = 1,
    processes: Annotated[int, typer.Option(min=1, max=1024, help="Runs at the same time.")] = 2,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where table.csv and chart.png go.")] = Path("simulation"),
) -> None:
    """Simulate a trace on a modelled machine under several policies and rates: a table, a CSV file and a picture.

    The scheduler is the one that serves; only the device is modelled. Every request counts, refused ones too.
    QoE is the quality of experience of the Andes paper, version 2, in [0, 1].

    Examples:

      andes-jax simulate --trace azure.csv --policy three_tier,fcfs --rate 0.5:4:0.5
      andes-jax simulate --trace azure.csv --kv-tokens 60000 --rate 1:4 --seeds 3 --predict 0.6 --end 600
      andes-jax simulate --trace lengths.csv.gz --arrivals gamma:2 --rate 2,4,8 --profile a100-40gb:llama-2-13b
      andes-jax simulate --trace requests.jsonl --policy three_tier,three_tier:beta=0 --tiers realtime=0.5,batch=0.5
    """
    from andes_jax.commands.comparison import compare
    from andes_jax.simulation.contender import parse_contenders

    contenders, rates = parse_contenders(policy), parse_rates(rate)
    output.mkdir(parents=True, exist_ok=True)
    compare(study, contenders, rates, seeds, processes, output)


def parse_rates(words: str) -> list[float]:
    """FROM:TO[:STEP], or rates with commas between them, ascending. Raises UsageError."""
    try:
        if ":" in words:
            first, last, step = [float(part) for part in f"{words}:{DEFAULT_STEP}".split(":")[:3]]
            if not (step > 0 and first <= last and len(words.split(":")) <= 3):
                raise ValueError
            count = math.floor((last - first) / step + 1e-9) + 1
            rates = [round(first + index * step, 9) for index in range(min(count, MOST_RATES + 1))]
        else:
            rates = sorted({float(part) for part in words.split(",")})
    except (ValueError, OverflowError):
        raise UsageError(f"rates {words!r}: give FROM:TO, FROM:TO:STEP, or rates such as 0.5,1,2") from None
    if not all(0 < rate < math.inf for rate in rates):
        raise UsageError(f"rates {words!r}: every rate is above 0")
    if len(rates) > MOST_RATES:
        raise UsageError(f"rates {words!r} are more than {MOST_RATES}; choose a larger step")
    return rates
