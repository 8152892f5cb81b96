"""Chinese is told from what only looks like it."""

from __future__ import annotations

import pytest

from andes_jax.jobs.summaries.language import is_chinese, language_name


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("今天天气很好。", True), ("GDP增长了5%，超出预期，OK。", True), ("今天の天気はとてもいいです。", False),
        ("오늘 날씨가 좋다.", False), ("The word 天 means sky, in many cases.", False), ("", False), ("123 …", False),
    ],
)  # fmt: skip
def test_chinese_texts(text, chinese):
    assert is_chinese(text) == chinese


@pytest.mark.parametrize(
    ("given", "name"),
    [("zh", "Chinese"), ("zh-CN", "Chinese"), ("EN_us", "English"), ("chinese", "Chinese"), ("中文", "Chinese"),
     ("Welsh", "Welsh")],
)  # fmt: skip
def test_names(given, name):
    assert language_name(given) == name
