"""Plans on the device: a tiny model's golden logits say which tokens must come back."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from andes_jax.model.checkpoints import open_checkpoint
from andes_jax.model.decoder import abstract_decoder, fill
from andes_jax.request import SamplingParams
from andes_jax.runtime.compile_watch import CompileCounter
from andes_jax.runtime.runner import DeviceRunner, RunnerSizes
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.plan import Admission, Slice, StepPlan, StepResult

FAMILY = Path(__file__).parents[2] / "golden" / "data" / "qwen3"
GOLDEN = np.load(FAMILY / "golden.npz")
IDS = tuple(GOLDEN["ids"].tolist())
LIKELIEST = GOLDEN["logits"].argmax(axis=1)
GREEDY = SamplingParams(max_tokens=50, temperature=0.0)
PAGES = (9, 2, 5, 7, 3)
LADDER = Ladder(decode_rows=(2,), prefill_queries=(8, 32))


@pytest.fixture(scope="module")
def runner():
    return runner_of()


def runner_of(device: jax.Device | None = None, pages: int = 12, host_pages: int = 0) -> DeviceRunner:
    """Weights as a checkpoint gives them: on no device in particular, or committed to one."""
    checkpoint = open_checkpoint(FAMILY)
    decoder = fill(abstract_decoder(checkpoint.spec, jnp.dtype("float32"), "xla"), checkpoint.arrays("float32"))
    if device is not None:
        graph, weights = nnx.split(decoder)
        decoder = nnx.merge(graph, jax.device_put(weights, device))
    return DeviceRunner(decoder, RunnerSizes(2, pages, 16, 6, LADDER, "xla", jnp.dtype("float32"), host_pages))


@pytest.mark.parametrize("committed", [False, True])
def test_nothing_compiles_after_warming_or_a_reset(committed):
    runner = runner_of(jax.devices()[0] if committed else None)
    runner.warm()
    counter = CompileCounter()
    counter.mark_ready()
    for _ in range(2):
        penalised = SamplingParams(max_tokens=9, temperature=0.7, presence_penalty=1.0, top_logprobs=2)
        admissions = (Admission(0, penalised, IDS[:40], IDS[40:42]), Admission(1, GREEDY, IDS[:8]))
        _step(runner, 1, _prompt(40), Slice(1, 0, 8, IDS[:8], (1,), True, 0, IDS[1:9]), admissions=admissions)
        _step(runner, 2, Slice(0, 40, 1, None, PAGES, True, 1), Slice(1, 8, 1, None, (1,), True, 1))
        runner.reset()
    assert counter.after_ready() == 0


@pytest.fixture(autouse=True)
def _empty(runner):
    runner.reset()


def _step(runner: DeviceRunner, number: int, *slices: Slice, admissions: tuple[Admission, ...] = ()) -> StepResult:
    runner.dispatch(StepPlan(number, slices, admissions))
    return runner.collect()


def _prompt(count: int, first: int = 0, *, sample: bool = True, slot: int = 0) -> Slice:
    return Slice(slot, first, count, IDS[first : first + count], PAGES, sample)


def test_a_prompt_draws_its_likeliest_token(runner):
    result = _step(runner, 1, _prompt(50), admissions=(Admission(0, GREEDY, IDS[:50]),))
    assert result.number == 1 and result.finite.all()
    assert result.token_ids.tolist() == [LIKELIEST[49]]


def test_chunks_build_on_each_other_and_only_the_last_draws(runner):
    first = _step(runner, 1, _prompt(21, sample=False), admissions=(Admission(0, GREEDY, IDS[:60]),))
    assert first.token_ids.tolist() == [0]
    assert _step(runner, 2, _prompt(39, 21)).token_ids.tolist() == [LIKELIEST[59]]


def test_the_drawn_token_is_fed_back_before_it_is_read(runner):
    """Two steps are in flight at once, as in the engine; the second knows no id."""
    runner.dispatch(StepPlan(1, (_prompt(40),), (Admission(0, GREEDY, IDS[:40]),)))
    runner.dispatch(StepPlan(2, (Slice(0, 40, 1, None, PAGES, True, 1),)))
    drawn, fed = (int(runner.collect().token_ids[0]) for _ in range(2))
    runner.reset()
    known = (*IDS[:40], drawn)
    again = _step(runner, 1, Slice(0, 0, 41, known, PAGES, True), admissions=(Admission(0, GREEDY, known),))
    assert int(again.token_ids[0]) == fed


def test_a_step_is_over_when_it_is_collected_though_it_draws_nothing(runner):
    _step(runner, 1, _prompt(80, sample=False), admissions=(Admission(0, GREEDY, IDS),))
    assert all(array.is_ready() for array in jax.live_arrays())


def test_a_mixed_step_keeps_slices_apart(runner):
    _step(runner, 1, _prompt(30, sample=False), admissions=(Admission(0, GREEDY, IDS), Admission(1, GREEDY, IDS)))
    mixed = _step(runner, 2, _prompt(1, 30), Slice(1, 0, 16, IDS[:16], (1, 4), True))
    assert mixed.token_ids.tolist() == [LIKELIEST[30], LIKELIEST[15]]


def test_logprobs_of_drawn_and_of_prompt_tokens(runner):
    wanting = SamplingParams(max_tokens=1, temperature=0.0, top_logprobs=3, prompt_logprobs=True)
    piece = Slice(0, 0, 10, IDS[:10], PAGES, True, 0, IDS[1:10])
    result = _step(runner, 1, piece, admissions=(Admission(0, wanting, IDS[:10]),))
    expected = GOLDEN["logits"] - np.log(np.exp(GOLDEN["logits"]).sum(axis=1, keepdims=True))
    assert result.logprobs[0].top_ids[0] == LIKELIEST[9] and len(result.logprobs[0].top_ids) == 3
    assert result.logprobs[0].logprob == pytest.approx(expected[9].max(), abs=1e-4)
    assert [entry.token_id for entry in result.scores[0]] == list(IDS[1:10])
    for place, entry in enumerate(result.scores[0]):
        assert entry.logprob == pytest.approx(expected[place, IDS[place + 1]], abs=1e-4)


def test_a_reset_forgets_steps_in_flight_and_pages(runner):
    runner.dispatch(StepPlan(1, (_prompt(20),), (Admission(0, GREEDY, IDS[:20]),)))
    runner.reset()
    with pytest.raises(IndexError):
        runner.collect()
    result = _step(runner, 2, _prompt(20), admissions=(Admission(0, GREEDY, IDS[:20]),))
    assert result.token_ids.tolist() == [LIKELIEST[19]]


def test_a_failing_dispatch_can_be_reset(runner):
    with pytest.raises(ValueError, match="7 pages in slot 0"):
        _step(runner, 1, Slice(0, 0, 4, IDS[:4], tuple(range(1, 8)), True))
    runner.reset()
    assert _step(runner, 2, _prompt(4), admissions=(Admission(0, GREEDY, IDS),)).token_ids[0] == LIKELIEST[3]


def test_warming_says_where_it_is(runner):
    told: list[tuple[str, int, int]] = []
    runner.warm(lambda *news: told.append(news))
    assert told[0] == ("2 x 1 tokens", 0, 3) and told[-1] == ("done", 3, 3)
