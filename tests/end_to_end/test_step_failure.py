"""Steps of the real model that go wrong: the request at fault ends alone, the others get the right text."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import jax.numpy as jnp
import pytest

from andes_jax.runtime.pack import SLOT
from andes_jax.runtime.runner import DeviceRunner
from andes_jax.scheduling.plan import StepPlan
from tests.end_to_end.replies import COMPLETIONS, Replies, ask, assert_golden, expected
from tests.end_to_end.server_process import assert_nothing_held

pytestmark = pytest.mark.timeout(280)
CULPRIT = {"name": "culprit", "chat": False, "prompt_ids": list(range(1000, 1030)), "output_ids": []}
TOKENS = 16
BYSTANDERS = ["english-sky", "chinese-beijing", "code-sort", "english-letter", "english-recipe"]


@dataclass
class Watch:
    """Knows from the plans which slot the culprit has, and when it is far enough to do harm."""

    slot: int | None = None
    after: int = 3  # tokens the culprit gets
    in_flight: deque[bool] = field(default_factory=deque)  # per step: is the culprit in it and far enough

    def see(self, plan: StepPlan) -> bool:
        for admission in plan.admissions:
            if admission.prompt_ids == tuple(CULPRIT["prompt_ids"]):
                self.slot = admission.slot
            elif admission.slot == self.slot:
                self.slot = None
        return any(part.slot == self.slot and part.generated >= self.after for part in plan.slices)


def fail_in_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, dispatch = Watch(), DeviceRunner.dispatch

    def failing(runner: DeviceRunner, plan: StepPlan) -> None:
        if watch.see(plan):
            raise RuntimeError("out of memory, for one")
        dispatch(runner, plan)

    monkeypatch.setattr(DeviceRunner, "dispatch", failing)


def fail_in_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, dispatch, collect, reset = Watch(), DeviceRunner.dispatch, DeviceRunner.collect, DeviceRunner.reset

    def noting(runner: DeviceRunner, plan: StepPlan) -> None:
        watch.in_flight.append(watch.see(plan))
        dispatch(runner, plan)

    def failing(runner: DeviceRunner) -> Any:
        if watch.in_flight.popleft():
            raise RuntimeError("the device gave up")
        return collect(runner)

    def forgetting(runner: DeviceRunner) -> None:
        watch.in_flight.clear()
        reset(runner)

    monkeypatch.setattr(DeviceRunner, "dispatch", noting)
    monkeypatch.setattr(DeviceRunner, "collect", failing)
    monkeypatch.setattr(DeviceRunner, "reset", forgetting)


def make_logits_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, dispatch, pick = Watch(), DeviceRunner.dispatch, DeviceRunner._pick
    harmful = False

    def noting(runner: DeviceRunner, plan: StepPlan) -> None:
        nonlocal harmful
        harmful = watch.see(plan)
        dispatch(runner, plan)

    def poisoned(runner: DeviceRunner, work: Any, computed: Any) -> Any:
        if harmful:
            rows = jnp.asarray(work.rows[:, SLOT] == watch.slot)[:, None]
            computed = computed._replace(logits=jnp.where(rows, jnp.nan, computed.logits))
        return pick(runner, work, computed)

    monkeypatch.setattr(DeviceRunner, "dispatch", noting)
    monkeypatch.setattr(DeviceRunner, "_pick", poisoned)


def all_at_once(url: str, cases: dict[str, dict]) -> tuple[list[Replies], Replies]:
    """The bystanders' replies, half of them over HTTP/2, and the culprit's."""
    with ThreadPoolExecutor(len(BYSTANDERS) + 1) as threads:
        others = [
            threads.submit(ask, url, cases[name], http2=number % 2 == 0, max_tokens=TOKENS)
            for number, name in enumerate(BYSTANDERS)
        ]
        guilty = threads.submit(ask, url, CULPRIT, max_tokens=TOKENS)
    return [other.result() for other in others], guilty.result()


def assert_right(replies: list[Replies], cases: dict[str, dict]) -> None:
    for name, reply in zip(BYSTANDERS, replies, strict=True):
        assert reply.error is None, (name, reply.error)
        assert (reply.text, reply.finish, reply.done) == (expected(cases[name], TOKENS), "length", True), name


@pytest.mark.parametrize(
    "break_it", [fail_in_dispatch, fail_in_collect, make_logits_nan], ids=lambda each: each.__name__
)
def test_the_culprit_fails_alone(live, cases, monkeypatch, break_it: Callable[[pytest.MonkeyPatch], None]):
    before, compiles = live.engine.statistics(), live.context.compiles_after_ready()
    break_it(monkeypatch)
    others, guilty = all_at_once(live.url, cases)
    assert_right(others, cases)
    assert guilty.error is not None and guilty.error["code"] == "generation_failed" and guilty.done
    assert not any(reply.finishes for reply in guilty.choices.values())
    unary = httpx.post(
        live.url + COMPLETIONS, json={"prompt": CULPRIT["prompt_ids"], "max_tokens": 9, "ignore_eos": True}, timeout=60
    )
    assert unary.status_code == 500 and unary.json()["error"]["code"] == "generation_failed"
    monkeypatch.undo()

    assert httpx.get(f"{live.url}/ready").status_code == 200
    assert_nothing_held(live.url)
    after = live.engine.statistics()
    assert after.finished["failed"] - before.finished["failed"] == 2
    raised = break_it is not make_logits_nan
    assert (after.step_failures > before.step_failures) == raised
    assert not raised or live.context.compiles_after_ready() == compiles, "recovering compiles nothing"
    assert_golden(live.url)
    assert ask(live.url, CULPRIT, max_tokens=5).error is None


def test_a_step_that_fails_once_costs_nobody_anything(live, cases, monkeypatch):
    dispatch, left, lock = DeviceRunner.dispatch, [12], threading.Lock()

    def failing(runner: DeviceRunner, plan: StepPlan) -> None:
        with lock:
            left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("once")
        dispatch(runner, plan)

    monkeypatch.setattr(DeviceRunner, "dispatch", failing)
    others, innocent = all_at_once(live.url, cases)
    assert left[0] < 0
    assert_right(others, cases)
    assert innocent.error is None and innocent.finish == "length"
    assert_nothing_held(live.url)
