"""What the model is told: in the right language, with what was asked for, and the same first for all texts."""

from __future__ import annotations

import pytest

from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.prompts import NOTE_WORDS, Prompts

STAGES = ("whole", "notes", "merge", "final")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("text", ["An English text.", "一篇中文的文章。"])
def test_instructions_come_first_and_do_not_depend_on_the_text(stage, text):
    prompts = Prompts.of(SummaryOptions(), text)
    first, second = prompts.messages(stage, text), prompts.messages(stage, "other")
    assert [each["role"] for each in first] == ["system", "user"]
    assert first[0] == second[0] and first[1]["content"].startswith(text)
    assert "{" not in first[0]["content"]


def test_language_is_the_texts_unless_one_is_named():
    def instruction(text, **options):
        return Prompts.of(SummaryOptions(**options), text).messages("whole", text)[0]["content"]

    assert "摘要" in instruction("一篇中文的文章。") and "language of the text" in instruction("Un texte.")
    assert "Write in German" in instruction("一篇中文的文章。", lang="de")
    assert "用中文" in instruction("An English text.", lang="zh")


@pytest.mark.parametrize("text", ["Text.", "中文。"])
def test_style_length_and_question_are_asked_for(text):
    def said(stage="final", **options):
        return Prompts.of(SummaryOptions(**options), text).messages(stage, text)[0]["content"]

    assert "- " in said(style="bullets") and "37" in said(words=37)
    assert "12" in said(style="headline") and f"{NOTE_WORDS}" in said("notes", style="headline")
    assert all("why?" in said(stage, question="why?") for stage in STAGES)


def test_replies_have_room_for_what_is_asked():
    english, chinese = (Prompts.of(SummaryOptions(words=100), text) for text in ("Text.", "中文。"))
    assert 200 <= english.max_tokens("whole") < chinese.max_tokens("whole")
    headline = Prompts.of(SummaryOptions(style="headline"), "Text.")
    assert headline.max_tokens("final") < headline.max_tokens("notes")
