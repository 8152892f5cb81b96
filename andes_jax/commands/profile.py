"""andes-jax profile: how long steps take on this machine, for simulations of it."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from andes_jax.commands.failure import CommandError
from andes_jax.commands.options import takes_settings
from andes_jax.commands.progress import progress_bar, progress_line
from andes_jax.config import Config
from andes_jax.events import TokenEvent
from andes_jax.failure import UsageError
from andes_jax.request import Request, SamplingParams

if TYPE_CHECKING:
    from andes_jax.build import Loaded
    from andes_jax.engine import Engine
    from andes_jax.simulation.fitted import Costs, ProfileFile
    from andes_jax.simulation.measuring import Measurement, RunnerShape

ENGINE_STEPS = 48  # of a batch of replies in the engine
ENGINE_PROMPT_TOKENS = 16
ENGINE_STALL_S = 120.0  # without an event
MIXED_SEED = 1


@takes_settings("model", "engine", "scheduling", model="argument")
def profile(
    config: Config,
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Where the profile goes, as JSON.")],
) -> None:
    """Measure how long steps of MODEL take on this machine, and write a profile that simulations can use.

    The model is loaded as serve loads it, with the same settings. Steps of known work are timed on the device, then
    replies in the engine, which shares the machine with the device. It takes some minutes; let nothing else run.

    Examples:

      andes-jax profile --output mine.json
      andes-jax simulate --profile mine.json --trace azure.csv --policy three_tier,fcfs
    """
    if not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {output.parent}")
    if min(config.engine.prefill_chunk, config.engine.step_tokens) < 2:
        raise UsageError("prompts that are computed token by token cannot be measured; raise engine.prefill_chunk")
    from andes_jax.build import load, start
    from andes_jax.simulation import fitting, measuring
    from andes_jax.simulation.fitted import FittedTimes

    with progress_line() as say:
        loaded = load(config, progress=say)
    shape = shape_of(loaded)
    cases = [plans(shape) for plans in (measuring.decode_cases, measuring.prefill_cases, measuring.copy_cases)]
    cases.append(measuring.mixed_cases(shape, MIXED_SEED))
    batches = sorted({1, max(1, shape.max_sequences // 4), shape.max_sequences})
    with progress_bar("warming up", measuring.ROUNDS * sum(map(len, cases)) + len(batches)) as tell:
        decodes, prefills, copies, mixed = (
            measuring.measure(loaded.runner, plans, shape, progress=tell) if plans else [] for plans in cases
        )
        costs = fitting.fit_costs(shape.ladder, decodes, prefills, copies)
        costs = fitting.with_mixed(costs, mixed[::2])
        error = fitting.fit_error(FittedTimes(costs), mixed[1::2])
        engine = start(config, loaded).engine
        try:
            in_engine, host_s = measure_engine(engine, batches, tell)
        finally:
            engine.stop(timeout_s=0)
    costs = fitting.with_engine(costs, in_engine)
    file = _file(config, loaded, costs, host_s).model_copy(update={"error": error})
    file.write(output)
    show(file, decodes, prefills)
    Console(highlight=False).print(f"written to {output}", markup=False)


def shape_of(loaded: Loaded) -> RunnerShape:
    """What plans for a loaded runner must keep to."""
    from andes_jax.simulation.measuring import RunnerShape

    limits, sizes = loaded.fit.limits, loaded.fit.sizes
    return RunnerShape(
        ladder=sizes.ladder,
        pages=sizes.pages,
        page_tokens=sizes.page_tokens,
        max_model_len=limits.max_model_len,
        max_sequences=limits.max_sequences,
        host_pages=sizes.host_pages,
    )


def measure_engine(
    engine: Engine, batches: Sequence[int], tell: Callable[[str], None]
) -> tuple[list[Measurement], float]:
    """Steps of so many replies at once in an engine, and seconds of its own work for a step of the largest batch."""
    from andes_jax.scheduling.step_time import StepWork
    from andes_jax.simulation.measuring import Measurement

    found = []
    host_s = 0.0
    for batch in batches:
        taken, hosts = _one_batch(engine, batch)
        context = batch * (ENGINE_PROMPT_TOKENS + ENGINE_STEPS // 2)
        found.append(Measurement(StepWork(batch, context), statistics.median(taken)))
        host_s = statistics.median(hosts)
        tell(f"{batch} replies in the engine")
    return found, host_s


def _one_batch(engine: Engine, batch: int) -> tuple[list[float], list[float]]:
    """Seconds between steps in which all of the batch got a token, and of the engine's own work for them."""
    ends: list[float] = []
    hosts: list[float] = []
    left = set(range(batch))
    over = threading.Event()

    def sink(events: Sequence[TokenEvent]) -> None:
        if len(events) == batch:
            ends.append(time.perf_counter())
            hosts.append(engine.statistics().host_s)  # of the step before
        left.difference_update(int(event.request_id) for event in events if event.finish is not None)
        if not left:
            over.set()

    requests = [
        Request(
            str(index),
            tuple((index + place) % 100 + 10 for place in range(ENGINE_PROMPT_TOKENS)),
            SamplingParams(max_tokens=ENGINE_STEPS + batch, seed=index),
        )
        for index in range(batch)
    ]
    engine.submit_all(requests, sink)
    if not over.wait(ENGINE_STALL_S + 0.5 * batch):
        raise CommandError("the engine did not come to an end of its replies; see its log")
    steady = ends[2:]
    if len(steady) < 2:
        raise CommandError(f"{batch} replies never ran together; raise engine.kv_pool_bytes")
    return [end - begin for begin, end in zip(steady, steady[1:], strict=False)], hosts[2:]


def _file(config: Config, loaded: Loaded, costs: Costs, host_s: float) -> ProfileFile:
    from andes_jax.build import model_id
    from andes_jax.simulation.fitted import ProfileFile

    limits, model, device = loaded.fit.limits, model_id(config), loaded.fit.device.kind
    return ProfileFile(
        name=f"{model} on {device}",
        model=model,
        device=device,
        kv_tokens=loaded.fit.pool_tokens,
        page_tokens=limits.page_tokens,
        max_sequences=limits.max_sequences,
        max_model_len=limits.max_model_len,
        step_tokens=limits.step_tokens,
        prefill_chunk=limits.prefill_chunk,
        host_s=host_s,
        costs=costs,
        error=None,
    )


def show(file: ProfileFile, decodes: Sequence[Measurement], prefills: Sequence[Measurement]) -> None:
    """Print what was measured and how well it fits."""
    console = Console(highlight=False)
    of_decodes = {(step.work.decodes, step.work.decode_context // step.work.decodes - 1): step for step in decodes}
    of_prompts = {step.work.prefills[0]: step for step in prefills}
    for name, steps in (("replies", of_decodes), ("prompt tokens", of_prompts)):
        console.print(f"milliseconds of a step, by {name} and by tokens before them", soft_wrap=True)
        console.print(_table(name, steps))
    for words in _words(file):
        console.print(words, soft_wrap=True)


def _words(file: ProfileFile) -> Iterator[str]:
    costs, error = file.costs, file.error
    copied = f"{costs.copy_page_s * 1e3:.3f} ms" if costs.copy_page_s else "not measured"
    yield f"a page between device and host: {copied}"
    yield (
        f"added by the engine: {costs.step_s * 1e3:.2f} ms a step and {costs.sequence_s * 1e3:.3f} ms a reply; "
        f"its own work, beside the device: {file.host_s * 1e3:.2f} ms a step"
    )
    if error is not None:
        yield (
            f"{error.steps} mixed steps, predicted against measured: {error.median:.1%} off at the median, "
            f"{error.worst:.1%} at worst, {error.bias:+.1%} on the whole"
        )


def _table(name: str, steps: dict[tuple[int, int], Measurement]) -> Table:
    """Milliseconds of steps by (size, tokens before)."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    sizes, befores = sorted({size for size, _ in steps}), sorted({before for _, before in steps})
    table.add_column(name, justify="right")
    for before in befores:
        table.add_column(str(before), justify="right")
    for size in sizes:
        found = [steps.get((size, before)) for before in befores]
        table.add_row(str(size), *("" if step is None else f"{step.seconds * 1e3:.1f}" for step in found))
    return table
