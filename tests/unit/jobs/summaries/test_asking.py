"""Every call is answered once."""

from __future__ import annotations

import pytest

from andes_jax.jobs.client import Reply
from andes_jax.jobs.folder import open_job
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.summaries.asking import Answer, Asker, CallFailed
from andes_jax.jobs.summaries.options import SummaryOptions
from tests.unit.jobs.parts import Waits
from tests.unit.jobs.summaries.parts import WordModel

MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "one two three"}]


@pytest.fixture
def journal(tmp_path):
    with open_job(tmp_path / "job", {}) as journal:
        yield journal


def asker(client, journal, model="m"):
    return Asker(client, model, journal, Keeper(journal, Waits().patience, lambda words: None))


async def ask(client, journal, max_tokens=2, **changes):
    return await asker(client, journal).ask(MESSAGES, max_tokens, SummaryOptions(**changes))


async def test_an_answer_is_kept_and_not_asked_for_again(journal):
    model = WordModel()
    first = await ask(model, journal)
    assert first == Answer("one two", "stop", 6, 2)
    assert model.asked == [{"model": "m", "messages": MESSAGES, "max_tokens": 2, "temperature": 0.0, "seed": 0}]
    assert await ask(model, journal) == first and len(model.asked) == 1
    await ask(model, journal, max_tokens=3)
    await ask(model, journal, seed=1)
    await ask(model, journal, frequency_penalty=0.5)
    assert len(model.asked) == 4 and model.asked[-1]["frequency_penalty"] == 0.5


@pytest.mark.parametrize(("status", "final"), [(400, True), (500, False)])
async def test_errors_are_told_and_not_kept(journal, status, final):
    with pytest.raises(CallFailed, match="no") as caught:
        await ask(WordModel(status=status), journal)
    assert (caught.value.code, caught.value.final) == ("refused", final)
    assert len(journal) == 0


@pytest.mark.parametrize("choices", [None, [], [{"message": {"content": 7}, "finish_reason": "x"}]])
async def test_what_is_no_chat_completion_is_an_error(journal, choices):
    class Odd:
        async def post(self, path, given):
            return Reply(200, {"choices": choices}, "")

    with pytest.raises(CallFailed) as caught:
        await ask(Odd(), journal)
    assert caught.value.code == "status_200"
