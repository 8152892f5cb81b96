"""What the model is told. Instructions come first and are the same for all texts of a job, so that the prefix cache
holds them once; the text comes after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from andes_jax.jobs.summaries.language import CHINESE, is_chinese, language_name
from andes_jax.jobs.summaries.options import SummaryOptions

Stage = Literal["whole", "notes", "merge", "final"]  # a short text, a chunk, notes on chunks, the last notes
NOTE_WORDS = 80  # of notes on a chunk, where the summary itself is shorter
_TOKENS_A_WORD = 2.0  # so that hardly any reply is cut off
_TOKENS_A_CHARACTER = 3.0  # of Chinese, also for models that hardly know it
_SPARE_TOKENS = 32

_ENGLISH: dict[Stage, str] = {
    "whole": "You summarize texts. Read the text that the user gives you and write {form}. {focus}",
    "notes": "You take notes. The user gives you one part of a longer text. Write down its main facts and events in "
    "about {words} words, as plain sentences. {focus}",
    "merge": "You take notes. The user gives you notes on consecutive parts of one text. Merge them into shorter notes "
    "of about {words} words that keep the main facts in their order. {focus}",
    "final": "You summarize texts. The user gives you notes on consecutive parts of one text. From them write {form} "
    "about the whole text. {focus}",
}
_CHINESE: dict[Stage, str] = {
    "whole": "你是摘要助手。请阅读用户给出的文本，写出{form}。{focus}",
    "notes": "你是笔记助手。用户给出一篇长文的一部分。请用约{words}字的通顺句子记下其中的主要事实和事件。{focus}",
    "merge": "你是笔记助手。用户给出同一篇文章各部分的笔记，按先后排列。"
    "请合并为约{words}字的简短笔记，保留主要事实及其顺序。{focus}",
    "final": "你是摘要助手。用户给出同一篇文章各部分的笔记，按先后排列。请据此为全文写出{form}。{focus}",
}
_ENGLISH_FORMS = {
    "paragraph": "a summary of about {words} words as one paragraph",
    "bullets": "a summary of about {words} words as a list with a line beginning with '- ' for each main point",
    "headline": "one headline of at most {words} words",
}
_CHINESE_FORMS = {
    "paragraph": "一段约{words}字的摘要",
    "bullets": "约{words}字的要点列表，每个要点一行，以“- ”开头",
    "headline": "一个不超过{words}字的标题",
}
_ENGLISH_ENDS: dict[Stage, str] = {"whole": "Summary:", "notes": "Notes:", "merge": "Notes:", "final": "Summary:"}
_CHINESE_ENDS: dict[Stage, str] = {"whole": "摘要：", "notes": "笔记：", "merge": "笔记：", "final": "摘要："}


@dataclass(frozen=True, slots=True)
class Prompts:
    """The conversations of one text's summary."""

    options: SummaryOptions
    language: str | None  # to write in, by its English name; None: the text's own, which is not Chinese

    @classmethod
    def of(cls, options: SummaryOptions, text: str) -> Prompts:
        """In the language that the options name, or in the text's own."""
        if options.lang is not None:
            return cls(options, language_name(options.lang))
        return cls(options, CHINESE if is_chinese(text) else None)

    def messages(self, stage: Stage, text: str) -> list[dict[str, str]]:
        """What the model is told of a text at a stage."""
        chinese = self.language == CHINESE
        end = (_CHINESE_ENDS if chinese else _ENGLISH_ENDS)[stage]
        return [
            {"role": "system", "content": self._instruction(stage)},
            {"role": "user", "content": f"{text}\n\n{end}"},
        ]

    def max_tokens(self, stage: Stage) -> int:
        """The longest reply."""
        each = _TOKENS_A_CHARACTER if self.language == CHINESE else _TOKENS_A_WORD
        return round(self._words(stage) * each) + _SPARE_TOKENS

    def _words(self, stage: Stage) -> int:
        return self.options.length if stage in ("whole", "final") else max(NOTE_WORDS, self.options.length)

    def _instruction(self, stage: Stage) -> str:
        words, question = self._words(stage), self.options.question
        if self.language == CHINESE:
            focus = "只写文本中有的内容，用中文回答。"
            if question:
                focus += f"重点回答这个问题：{question}"
            form = _CHINESE_FORMS[self.options.style].format(words=words)
            return _CHINESE[stage].format(form=form, words=words, focus=focus)
        focus = "Say only what the text says. "
        focus += f"Write in {self.language}." if self.language else "Write in the language of the text."
        if question:
            focus += f" Look for what answers this question: {question}"
        form = _ENGLISH_FORMS[self.options.style].format(words=words)
        return _ENGLISH[stage].format(form=form, words=words, focus=focus)
