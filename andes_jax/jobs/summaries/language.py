"""Whether a text is Chinese, and languages by their names."""

from __future__ import annotations

import re

_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_LETTER = re.compile(r"[^\W\d_]")
_SAMPLE = 20_000  # characters that are looked at
_NAMES = {
    "en": "English", "zh": "Chinese", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian",
    "pt": "Portuguese", "ru": "Russian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish",
    "ar": "Arabic", "hi": "Hindi", "tr": "Turkish", "vi": "Vietnamese",
}  # fmt: skip
CHINESE = "Chinese"


def is_chinese(text: str) -> bool:
    """Whether a third or more of the letters are Chinese characters and hardly any are of Japanese or Korean."""
    sample = text[:_SAMPLE]
    letters, others = len(_LETTER.findall(sample)), len(_KANA_OR_HANGUL.findall(sample))
    chinese = len(_CHINESE.findall(sample))
    return chinese > 0 and chinese * 3 >= letters and others * 10 < chinese


def language_name(given: str) -> str:
    """The English name of a language that is given by its code, such as zh-CN; any other word stands for itself."""
    name = _NAMES.get(given.lower().replace("_", "-").split("-")[0], given)
    return CHINESE if name.lower() == "chinese" or name in ("中文", "汉语") else name
