"""A reply of the embedded model that is paused to host memory and resumed: its tokens are the golden ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest

from andes_jax.build import load
from andes_jax.config import load_config
from andes_jax.request import SamplingParams
from andes_jax.runtime.runner import DeviceRunner
from andes_jax.scheduling.plan import Admission, PageCopy, Slice, StepPlan
from tests.end_to_end.engines import golden
from tests.end_to_end.server_process import PROGRAMS

NUMBERS = count(1)  # of steps
GREEDY = SamplingParams(max_tokens=64, temperature=0.0)


@pytest.fixture(scope="module")
def loaded():
    flags = {
        "model.dtype": "float32",
        "model.max_model_len": 512,
        "engine.max_sequences": 4,
        "engine.host_kv_bytes": "32MiB",
        "engine.compile_cache_dir": str(PROGRAMS),
    }
    loaded = load(load_config(flags=flags, environ={}))
    loaded.compiles.mark_ready()
    return loaded


@dataclass
class Case:
    """A golden reply, computed in slot 0."""

    prompt: tuple[int, ...]
    output: list[int]

    def start(self, runner: DeviceRunner, pages: tuple[int, ...]) -> list[int]:
        """Compute the prompt and draw its first token."""
        part = Slice(0, 0, len(self.prompt), self.prompt, pages, True)
        return _step(runner, part, admissions=(Admission(0, GREEDY, self.prompt),))

    def go_on(self, runner: DeviceRunner, drawn: list[int], pages: tuple[int, ...], tokens: int, **parts) -> list[int]:
        """Draw until there are `tokens` of them; `parts` belong to the first step's plan."""
        while len(drawn) < tokens:
            place = len(self.prompt) + len(drawn) - 1
            drawn = drawn + _step(runner, Slice(0, place, 1, (drawn[-1],), pages, True, len(drawn)), **parts)
            parts = {}
        return drawn


def _step(runner: DeviceRunner, *slices: Slice, **parts: tuple) -> list[int]:
    runner.dispatch(StepPlan(next(NUMBERS), slices, **parts))
    result = runner.collect()
    assert result.finite.all()
    return result.token_ids.tolist()


def test_a_reply_goes_on_after_a_pause_in_host_memory(loaded):
    """Its slot and all its pages serve another reply in between, and it comes back to other pages."""
    by_length = sorted(golden()["cases"], key=lambda case: len(case["prompt_ids"]))
    paused, other = (Case(tuple(case["prompt_ids"]), case["output_ids"]) for case in (by_length[-1], by_length[-2]))
    needed = -(-(len(paused.prompt) + len(paused.output)) // loaded.fit.sizes.page_tokens)
    pages, back, hosts = (tuple(range(start, start + needed)) for start in (1, 20, 0))
    assert needed <= loaded.fit.sizes.host_pages and 20 + needed <= loaded.fit.sizes.pages

    runner = loaded.runner
    drawn = paused.go_on(runner, paused.start(runner, pages), pages, 10)
    _step(runner, saves=(PageCopy(pages, hosts),))
    assert other.go_on(runner, other.start(runner, pages), pages, 20) == other.output[:20]

    parts = {"loads": (PageCopy(back, hosts),), "admissions": (Admission(0, GREEDY, paused.prompt, tuple(drawn)),)}
    assert paused.go_on(runner, drawn, back, len(paused.output), **parts) == paused.output
    assert loaded.compiles.after_ready() == 0
