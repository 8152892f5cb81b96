"""What a job would do, beside what it does."""

from __future__ import annotations

from andes_jax.jobs.documents.sources import find_files, sources_of
from andes_jax.jobs.folder import open_job
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.summaries.asking import Asker
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.plan import plan_summaries
from andes_jax.jobs.summaries.summarizer import Cutter, Summarizer
from andes_jax.jobs.tokens import TokenCounter
from tests.unit.jobs.parts import Waits
from tests.unit.jobs.summaries.parts import WordModel, count, story


async def test_a_plan_is_what_is_done(tmp_path):
    texts = {"a": story(2), "b": story(90), "c": "done"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "d.txt").write_text("")
    model, options = WordModel(600), SummaryOptions(words=20, chunk_overlap=20)
    counter = TokenCounter(model)
    cutter = Cutter(options, 600, counter)
    sources = list(sources_of(find_files([str(tmp_path)], tmp_path / "rows.jsonl")))
    done = {source.read("text").sha256 for source in sources if source.path.stem == "c"}
    plan = await plan_summaries(sources, "text", cutter, done.__contains__)
    assert (plan.documents, plan.unreadable, plan.done) == (4, 1, 1) and model.asked == []
    assert plan.source_tokens == await count(texts["a"]) + await count(texts["b"])

    with open_job(tmp_path / "job", {}) as journal:
        asker = Asker(model, "m", journal, Keeper(journal, Waits().patience, print))
        summarizer = Summarizer(options, asker, cutter, counter)
        made = [await summarizer.summarize(texts[name]) for name in "ab"]
    assert plan.chunks == sum(each.chunks for each in made)
    calls, written = sum(each.calls for each in made), sum(each.completion_tokens for each in made)
    assert calls <= plan.calls <= 1.2 * calls and written <= plan.reply_tokens <= 1.5 * written
    assert plan.prompt_tokens >= sum(each.source_tokens for each in made)
