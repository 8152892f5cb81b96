"""Whole where it fits, else map and reduce in rounds; the context is never exceeded."""

from __future__ import annotations

import pytest

from andes_jax.jobs.folder import open_job
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.summaries.asking import Asker, CallFailed
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.summarizer import Cutter, NothingSaid, Summarizer
from andes_jax.jobs.tokens import TokenCounter
from tests.unit.jobs.parts import Waits
from tests.unit.jobs.summaries.parts import WordModel, count, story


@pytest.fixture
def summarize(tmp_path):
    """Summarize a text with a model, with options and the journal of this test."""

    async def run(text, model, **options):
        chosen = SummaryOptions(**{"words": 20, "chunk_overlap": 20, **options})
        counter = TokenCounter(model)
        with open_job(tmp_path / "job", {}) as journal:
            asker = Asker(model, "m", journal, Keeper(journal, Waits().patience, lambda words: None))
            cutter = Cutter(chosen, model.context, counter)
            return await Summarizer(chosen, asker, cutter, counter).summarize(text)

    return run


async def test_a_short_text_is_read_whole(summarize):
    model = WordModel(600)
    text = story(3)
    summary = await summarize(text, model)
    assert len(model.asked) == summary.calls == 1
    assert model.asked[0]["messages"][1]["content"].startswith(text)
    assert (summary.chunks, summary.rounds, summary.notes) == (1, 0, [])
    assert summary.source_tokens == await count(text) and summary.text.startswith("Sentence 0 of paragraph 0")
    assert (summary.completion_tokens, model.asked[0]["temperature"]) == (72, 0.0)


async def test_a_long_text_is_read_in_chunks_whose_notes_become_one(summarize):
    model = WordModel(600)
    summary = await summarize(story(60), model)
    assert summary.chunks == len(summary.notes) > 5 and summary.rounds >= 2
    assert summary.calls == len(model.asked) > summary.chunks + 1
    for number, note in enumerate(summary.notes):
        assert note["text"].startswith("Sentence") and note["tokens"] <= 600 and (note["overlap"] > 0) == (number > 0)
    assert len(set(model.systems)) == 3, "one instruction a stage, so that its pages are shared"
    assert 450 < model.longest <= 600, "prompts use the context"
    assert summary.prompt_tokens > summary.source_tokens


@pytest.mark.parametrize("context", [560, 700, 2000])
@pytest.mark.parametrize("text", ["天气很好。" * 900, "word " * 4000, "x" * 50 + ". " + story(100)])
async def test_any_text_ends_in_a_summary_within_the_context(summarize, context, text):
    summary = await summarize(text, WordModel(context), style="headline")
    assert summary.text and summary.chunks > 1


async def test_a_second_run_asks_only_for_what_is_missing(summarize):
    class Breaks(WordModel):
        async def post(self, path, body):
            if len(self.asked) == 4:
                raise KeyError("killed")
            return await super().post(path, body)

    text = story(40)
    with pytest.raises(KeyError, match="killed"):
        await summarize(text, Breaks(600))
    rest, whole = WordModel(600), WordModel(600)
    summary = await summarize(text, rest)
    assert summary.calls == len(rest.asked) + 4
    again = await summarize(text, whole, seed=1)
    assert (again.text, again.notes, again.prompt_tokens) == (summary.text, summary.notes, summary.prompt_tokens)


async def test_a_reply_that_is_broken_off_ends_with_a_sentence(summarize):
    model = WordModel(600, said="It began. It went on well. And th", finish="length")
    summary = await summarize(story(1), model)
    assert (summary.text, summary.finish) == ("It began. It went on well.", "length")


async def test_failures_are_those_of_the_text(summarize):
    with pytest.raises(CallFailed, match="no"):
        await summarize(story(40), WordModel(600, status=400))
    with pytest.raises(NothingSaid):
        await summarize(story(1), WordModel(600, said=" "))
    with pytest.raises(NothingSaid):
        await summarize(story(40), WordModel(600, said=""))
