"""From measured steps to costs: a line for every compiled program, fitted by relative error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.step_time import StepTimes
from andes_jax.simulation.fitted import Costs, FitError, FittedTimes, ProgramCost, pairs_of
from andes_jax.simulation.measuring import Measurement


def fit_costs(
    ladder: Ladder, decodes: Sequence[Measurement], prefills: Sequence[Measurement], copies: Sequence[Measurement]
) -> Costs:
    """Costs of programs and copies, without what an engine adds.

    Args:
        decodes: of steps with decodes alone; every compiled row count that is to be in the costs.
        prefills: of steps with one slice alone, as long as a compiled program; every program that is to be in them.
        copies: of steps with decodes and copies.

    Raises ValueError when nothing was measured of decodes or of prefills.
    """
    rows = [_fitted(size, _decode_points(decodes, ladder, size)) for size in ladder.decode_rows]
    queries = [_fitted(size, _prefill_points(prefills, size)) for size in ladder.prefill_queries]
    costs = Costs(
        decode=tuple(cost for cost in rows if cost is not None),
        prefill=tuple(cost for cost in queries if cost is not None),
        copy_page_s=0.0,
        step_s=0.0,
        sequence_s=0.0,
    )
    return costs.model_copy(update={"copy_page_s": _copy_page_s(FittedTimes(costs), copies)})


def with_engine(costs: Costs, steps: Sequence[Measurement]) -> Costs:
    """Costs with what an engine adds to steps of decodes alone, from such steps measured in one."""
    times = FittedTimes(costs)
    points = [(step.work.decodes, step.seconds - times.seconds(step.work)) for step in steps]
    if not points:
        return costs
    step_s, sequence_s = line([float(decodes) for decodes, _ in points], [extra for _, extra in points])
    return costs.model_copy(update={"step_s": step_s, "sequence_s": sequence_s})


def with_mixed(costs: Costs, steps: Sequence[Measurement]) -> Costs:
    """Costs with prefill programs as they are beside decodes, from steps with both: a step's programs share caches and
    wait for each other, which one kind alone does not show."""
    times = FittedTimes(costs)
    ratios = []
    for step in steps:
        alone_s = times.seconds(step.work._replace(prefills=()))
        ratios.append((step.seconds - alone_s) / (times.seconds(step.work) - alone_s))
    if not ratios:
        return costs
    factor = max(0.1, float(np.median(ratios)))
    scaled = [
        cost.model_copy(update={"base_s": factor * cost.base_s, "slope_s": factor * cost.slope_s})
        for cost in costs.prefill
    ]
    return costs.model_copy(update={"prefill": tuple(scaled)})


def fit_error(times: StepTimes, steps: Sequence[Measurement]) -> FitError | None:
    """How far predictions are from steps that were not fitted to; None without such steps."""
    if not steps:
        return None
    errors = np.array([times.seconds(step.work) / step.seconds - 1 for step in steps])
    return FitError(
        steps=len(steps),
        median=float(np.median(abs(errors))),
        worst=float(abs(errors).max()),
        bias=float(np.median(errors)),
    )


def line(
    places: Sequence[float], values: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[float, float]:
    """Base and slope, both at least 0, of the line nearest to the values, by squares of weighted differences."""
    x, y = np.array(places, np.float64), np.array(values, np.float64)
    weight = np.ones_like(x) if weights is None else np.array(weights, np.float64)
    candidates = []
    if len(set(x.tolist())) > 1:
        scale = abs(x).max()
        columns = np.stack([np.ones_like(x), x / scale], axis=1) * weight[:, None]
        base, slope = np.linalg.lstsq(columns, y * weight, rcond=None)[0]
        if base >= 0 and slope >= 0:
            return float(base), float(slope / scale)
        through_zero = max(0.0, float((x * y * weight**2).sum() / (x * x * weight**2).sum()))
        candidates.append((0.0, through_zero))
    candidates.append((max(0.0, float(np.average(y, weights=weight**2))), 0.0))
    return min(candidates, key=lambda each: float((((each[0] + each[1] * x - y) * weight) ** 2).sum()))


def _fitted(size: int, points: Sequence[tuple[float, float]]) -> ProgramCost | None:
    if not points:
        return None
    places, seconds = zip(*points, strict=True)
    base_s, slope_s = line(places, seconds, [1 / value for value in seconds])
    return ProgramCost(size=size, base_s=base_s, slope_s=slope_s)


def _decode_points(steps: Sequence[Measurement], ladder: Ladder, rows: int) -> list[tuple[float, float]]:
    of_rows = [step for step in steps if ladder.rows_for(step.work.decodes) == rows]
    return [(float(step.work.decode_context), step.seconds) for step in of_rows]


def _prefill_points(steps: Sequence[Measurement], queries: int) -> list[tuple[float, float]]:
    points = []
    for step in steps:
        ((count, before),) = step.work.prefills
        if count == queries:
            points.append((pairs_of(count, before), step.seconds))
    return points


def _copy_page_s(times: StepTimes, steps: Sequence[Measurement]) -> float:
    """Seconds a page adds to a step, weighted towards steps with many."""
    if not steps:
        return 0.0
    pages = np.array([step.work.copied_pages for step in steps], np.float64)
    added = np.array([step.seconds - times.seconds(step.work._replace(copied_pages=0)) for step in steps])
    return max(0.0, float((pages * added).sum() / (pages * pages).sum()))
