"""Room for text beside instructions and reply."""

from __future__ import annotations

import pytest

from andes_jax.failure import UserError
from andes_jax.jobs.summaries.budget import budget_of
from andes_jax.jobs.summaries.options import SummaryOptions
from andes_jax.jobs.summaries.prompts import Prompts
from andes_jax.jobs.tokens import TokenCounter
from tests.unit.jobs.summaries.parts import WordModel


async def budget(context, **options):
    prompts = Prompts.of(SummaryOptions(**options), "Text.")
    return await budget_of(prompts, context, TokenCounter(WordModel()))


async def test_three_notes_fit_into_one_prompt_and_replies_beside_them():
    wide, narrow = await budget(2000), await budget(600)
    assert wide.summary == narrow.summary == 272 and wide.notes == 272
    assert 2000 - 272 - 90 < wide.text < 2000 - 272 - 16
    assert narrow.notes * 3 < narrow.text
    assert (narrow.reply("notes"), narrow.reply("whole")) == (narrow.notes, narrow.summary)


async def test_chunks_may_be_made_smaller_and_not_larger():
    assert (await budget(2000, chunk_tokens=300)).text == 300
    assert (await budget(2000, chunk_tokens=5000)).text == (await budget(2000)).text


async def test_a_context_that_is_too_small_is_told_with_its_numbers():
    with pytest.raises(UserError, match="context of 400 tokens.*272 of a reply.*--words"):
        await budget(400)
