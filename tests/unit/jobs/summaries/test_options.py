"""Options of summaries: what they may be, and what makes two summaries the same."""

from __future__ import annotations

import pytest

from andes_jax.failure import UsageError
from andes_jax.jobs.summaries.options import SummaryOptions


def test_length_follows_the_style_unless_given():
    assert [SummaryOptions(style=style).length for style in ("paragraph", "headline")] == [120, 12]
    assert SummaryOptions(words=40).as_json()["words"] == 40


def test_options_that_cannot_be():
    with pytest.raises(UsageError, match="--style"):
        SummaryOptions(style="poem")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--chunk-overlap"):
        SummaryOptions(chunk_tokens=200)


def test_a_key_is_that_of_text_model_and_options():
    key = SummaryOptions().key("a", "m")
    assert key == SummaryOptions(words=120).key("a", "m")
    others = [SummaryOptions().key("b", "m"), SummaryOptions().key("a", "n")]
    others += [SummaryOptions(**change).key("a", "m") for change in ({"words": 9}, {"lang": "en"}, {"question": "?"})]
    assert len({key, *others}) == 6
