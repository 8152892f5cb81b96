"""Rows as JSON lines and as Markdown."""

from __future__ import annotations

import json

from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.rows import error_row, json_lines, markdown, summary_row
from andes_jax.jobs.summaries.summarizer import Summary

NOTES = [{"tokens": 30, "overlap": 0, "text": "first\nnote"}, {"tokens": 20, "overlap": 4, "text": "*second*"}]
SUMMARY = Summary("天气很好。", "stop", 46, 2, 1, 3, 100, 20, NOTES)


def rows():
    row = summary_row(SUMMARY, source_hash="ab", model="a_model", options=SummaryOptions(), seconds=1.23456)
    return iter([("a_b.txt", row), ("c.pdf", error_row("unreadable", "it is <empty>"))])


def test_lines_say_what_was_done_and_what_it_took():
    first, second = map(json.loads, json_lines(rows(), trace=False))
    assert first["source"] == "a_b.txt" and first["source_sha256"] == "ab" and first["summary"] == "天气很好。"
    assert first["tokens"] == {"source": 46, "prompt": 100, "completion": 20}
    assert (first["model"], first["chunks"], first["rounds"], first["seconds"]) == ("a_model", 2, 1, 1.235)
    assert first["settings"]["words"] == 120 and first["error"] is None and "notes" not in first
    assert second["summary"] is None and second["error"] == {"code": "unreadable", "message": "it is <empty>"}


def test_notes_are_kept_for_those_who_trace():
    assert json.loads(next(json_lines(rows(), trace=True)))["notes"] == NOTES
    assert b"1. first note\n2. \\*second\\*\n" in b"".join(markdown(rows(), trace=True))


def test_a_page_has_a_section_for_each_document():
    page = b"".join(markdown(rows(), trace=False)).decode()
    assert page.startswith("# Summaries\n\n## a\\_b.txt\n\n天气很好。\n\n*a\\_model, 46 tokens in 2 chunks*\n")
    assert page.endswith("## c.pdf\n\n> Not summarized: it is \\<empty\\>\n") and "Notes" not in page
