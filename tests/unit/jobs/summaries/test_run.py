"""Summary jobs: a row for every document, in order, and nothing is done twice."""

from __future__ import annotations

import json

import pytest

from andes_jax.jobs.client import ServerLost
from andes_jax.jobs.documents.sources import find_files, sources_of
from andes_jax.jobs.folder import open_job
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.summaries.asking import Asker
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.run import SummaryRun
from andes_jax.jobs.summaries.summarizer import Cutter, Summarizer
from andes_jax.jobs.tally import Tally
from andes_jax.jobs.tokens import TokenCounter
from tests.unit.jobs.parts import Waits
from tests.unit.jobs.summaries.parts import WordModel, story


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, text in {"a": story(1), "b": story(40), "c": story(1), "d": "", "e": story(2)}.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture
def run(tmp_path, documents):
    """One run over the documents; its rows and the tally."""

    async def over(model, name="rows.jsonl", **options):
        chosen = SummaryOptions(words=20, chunk_overlap=20, **options)
        tally, counter, files = Tally(), TokenCounter(model), find_files([str(documents)], tmp_path / "rows.jsonl")
        with open_job(tmp_path / "job", {}) as journal:
            keeper = Keeper(journal, Waits().patience, tally.waits_for)
            job = SummaryRun(chosen, "m", "text", journal, keeper, tally)
            asker, cutter = Asker(model, "m", journal, keeper), Cutter(chosen, model.context, counter)
            await job.run(lambda: sources_of(files), Summarizer(chosen, asker, cutter, counter), 3)
            counts = job.write(tmp_path / name, trace=False)
        text = (tmp_path / name).read_text()
        if not name.endswith(".jsonl"):
            return text, tally
        rows = [json.loads(line) for line in text.splitlines()]
        assert counts == (sum(row["error"] is None for row in rows), sum(row["error"] is not None for row in rows))
        return rows, tally

    return over


def lasting(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


async def test_every_document_is_a_row_in_order_and_one_text_is_read_once(run):
    model = WordModel(600)
    rows, tally = await run(model)
    assert [row["source"][-5:] for row in rows] == [f"{name}.txt" for name in "abcde"]
    assert rows[3]["error"] == {"code": "unreadable", "message": "it is empty"}
    assert rows[0]["summary"] == rows[2]["summary"] and rows[1]["chunks"] > 3
    whole = [body for body in model.asked if "Summary:" in body["messages"][1]["content"]]
    assert len(whole) == 3, "one for a and c, the last of b, one for e"
    assert (tally.total, tally.done, tally.errors) == (5, 5, 1)


async def test_a_job_goes_on_by_content_whatever_files_are_called(run, documents):
    class Lost(WordModel):
        async def post(self, path, body):
            if path != "/tokenize" and len(self.asked) == 5:
                raise ServerLost("gone")
            return await super().post(path, body)

    with pytest.raises(ServerLost):
        await run(Lost(600))
    rest = WordModel(600)
    (documents / "a.txt").rename(documents / "z.txt")
    rows, _ = await run(rest)
    whole, silent = WordModel(600), WordModel(600)
    (documents / "z.txt").rename(documents / "a.txt")
    assert lasting((await run(silent))[0])[1:] == lasting(rows)[:-1] and silent.asked == []
    fresh, _ = await run(whole, seed=1)
    assert len(rest.asked) + 5 == len(whole.asked)
    assert [row["summary"] for row in fresh[1:]] == [row["summary"] for row in rows[:-1]]


async def test_other_options_are_other_summaries(run):
    await run(WordModel(600))
    other = WordModel(600)
    _, tally = await run(other, style="bullets")  # of a and c, which have one text, neither is from before
    assert other.asked and tally.resumed == 0


async def test_faults_get_another_chance_and_errors_none(run):
    refused, _ = await run(WordModel(600, status=400))
    assert {row["error"]["code"] for row in refused} == {"refused", "unreadable"}
    model = WordModel(600)
    again, tally = await run(model)
    assert lasting(again) == lasting(refused) and model.asked == [] and tally.resumed == 4
    await run(WordModel(600, status=500), seed=1)
    good, _ = await run(WordModel(600), seed=1)
    assert sum(row["error"] is None for row in good) == 4


async def test_a_context_that_is_too_small_is_an_error_of_each_document(run):
    rows, _ = await run(WordModel(300))
    assert {row["error"]["code"] for row in rows} == {"not_possible", "unreadable"}


async def test_a_page_by_its_name(run):
    page, _ = await run(WordModel(600), name="rows.md")
    assert page.count("## ") == 5 and "> Not summarized: it is empty" in page
