"""The pace of a server, measured on a clock that the server turns."""

from __future__ import annotations

import pytest

from andes_jax.failure import UserError
from andes_jax.jobs.client import Reply
from andes_jax.jobs.estimate import Pace, measure_pace


class Machine:
    """Reads 100 tokens a second and writes 10."""

    def __init__(self, status: int = 200) -> None:
        self.now_s = 0.0
        self.prompts: list[str] = []
        self._status = status

    async def post(self, path, body):
        read, written = len(body["prompt"].split()), body["max_tokens"]
        self.prompts.append(body["prompt"])
        self.now_s += read / 100 + written / 10
        return Reply(self._status, {"usage": {"prompt_tokens": read, "completion_tokens": written}}, "")


async def test_reading_and_writing_are_timed_apart():
    machine = Machine()
    pace = await measure_pace(machine, "m", 4, clock=lambda: machine.now_s)
    assert pace.prompt_tokens_per_s == pytest.approx(100, rel=0.1)
    assert pace.reply_tokens_per_s == pytest.approx(10, rel=0.1)
    assert len(set(machine.prompts)) == 8, "none may be served from the prefix cache"


def test_seconds_of_a_job():
    assert Pace(100, 10).seconds(200, 30) == 5


async def test_a_server_that_refuses_is_told():
    with pytest.raises(UserError, match="pace cannot be measured: status 400"):
        await measure_pace(Machine(400), "m", 1)
