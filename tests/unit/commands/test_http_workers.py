"""andes_jax.commands.http_workers: what each process is given. Their whole life is in end_to_end/test_http_workers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypercorn.config import Sockets

from andes_jax.commands import http_workers
from andes_jax.commands.http_workers import WorkerPlan
from andes_jax.config import load_config
from andes_jax.failure import UserError


class Link:
    """An end of a pipe that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def send(self, words: Any) -> None:
        self.said.append(words)


def plan(**settings: Any) -> WorkerPlan:
    flags = {f"server.{name}": value for name, value in {"engine": "unix:/nowhere", **settings}.items()}
    return WorkerPlan(load_config(flags=flags, environ={}), Sockets([], [], []), ("http://a:1",), Path("/metrics"))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Contexts that are served; every process hears of one engine, and ends at once."""
    from tests.server.parts import mk_context

    contexts: list[Any] = []

    def serve(context: Any, bound: Any, announce: Any) -> int:
        contexts.append(context)
        announce(bound.urls)
        return 0

    def context_of(config: Any, progress: Any) -> tuple[Any, str]:
        return mk_context(grpc_port=config.server.grpc_port), "words"

    monkeypatch.setattr(http_workers, "serve", serve)
    monkeypatch.setattr(http_workers, "front_end_context", context_of)
    monkeypatch.setattr(http_workers, "end_with", lambda link: None)
    return contexts


def test_a_plan_crosses_to_another_process_whole():
    assert pickle.loads(pickle.dumps(plan(port=0))) == plan(port=0)


@pytest.mark.parametrize("number, grpc_port", [(0, 9000), (1, None), (2, None)])
def test_one_process_serves_grpc_and_all_keep_count_together(served: list[Any], number: int, grpc_port: int | None):
    link = Link()
    with pytest.raises(SystemExit) as ended:
        plan(grpc_port=9000).run(number, link)  # type: ignore[arg-type]
    (context,) = served
    assert (ended.value.code, context.settings.grpc_port) == (0, grpc_port)
    assert context.settings.shared_metrics == Path("/metrics")
    assert link.said == [(context.model_id, "words", ("http://a:1",))]


def test_what_a_user_can_put_right_is_one_line(
    served: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def mismatch(config: Any, progress: Any) -> Any:
        raise UserError("the engine has another model")

    monkeypatch.setattr(http_workers, "front_end_context", mismatch)
    with pytest.raises(SystemExit) as ended:
        plan().run(0, Link())  # type: ignore[arg-type]
    assert ended.value.code == 1
    assert capsys.readouterr().err == "andes-jax: the engine has another model\n"
