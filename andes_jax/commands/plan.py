"""andes-jax plan: how many requests a device carries, and how many devices a trace needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from andes_jax.commands.progress import progress_bar
from andes_jax.commands.study import console, own_demand, takes_study

if TYPE_CHECKING:
    from andes_jax.simulation.sweep import Study


@takes_study
def plan(
    study: Study,
    target_qoe: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Mean quality of experience to keep, in (0, 1).")
    ] = 0.9,
    policy: Annotated[str, typer.Option(metavar="A,B,…", help="Policies, as simulate takes them.")] = "three_tier,fcfs",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs at each rate; their mean counts.")] = 2,
    processes: Annotated[int, typer.Option(min=1, max=1024, help="Runs at the same time.")] = 2,
) -> None:
    """Say how many requests per second one device carries at a mean QoE, and how many devices a trace needs.

    The trace is played faster and faster (or drawn at more and more requests per second, with --arrivals) until its
    readers are no longer served well enough; the limit is found by bisection, to about 2 %. Devices are counted for
    the trace's mean rate and for its busiest minute, as if requests were dealt to them evenly.

    Examples:

      andes-jax plan --trace azure.csv --target-qoe 0.9 --profile a100-80gb:llama-3-8b
      andes-jax plan --trace requests.jsonl --profile my-machine.json --readers fast --predict 0.6
      andes-jax plan --trace lengths.csv.gz --arrivals poisson --policy three_tier
    """
    from andes_jax.simulation.capacity import Devices, critical_rate, qoe_at
    from andes_jax.simulation.contender import parse_contenders
    from andes_jax.simulation.sweep import runs

    contenders = parse_contenders(policy)
    mean, peak = own_demand(study) if study.workload.process is None else (None, None)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", overflow="fold")
    table.add_column("requests/s a device", justify="right")
    if mean is not None and peak is not None:
        table.add_column(f"devices for the mean, {mean:.2f}/s", justify="right")
        table.add_column(f"for the busiest minute, {peak:.2f}/s", justify="right")
    with runs(study, min(processes, seeds)) as run_all, progress_bar("looking for the limit", None) as tell:
        for contender in contenders:
            found = critical_rate(
                qoe_at(run_all, contender, seeds),
                target_qoe,
                tell=lambda rate, qoe, label=contender.label: tell(f"{label} at {rate:.3g}: QoE {qoe:.3f}"),  # type: ignore[misc]
            )
            devices = Devices(found.rate if mean is None else found.rate * mean, mean, peak)
            row = [contender.label, f"{devices.requests_per_s:.3g}"]
            if mean is not None:
                row += [str(devices.for_mean), str(devices.for_peak)]
            table.add_row(*row)
    out = console()
    out.print(f"{study.profile.name}, {study.profile.kv_tokens:,} tokens of cache, mean QoE of {target_qoe:g} or more:")
    out.print(table)
