"""What every tokenizer promises, whatever its source."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Backend

from andes_jax.text.token_table import TokenTable
from andes_jax.text.tokenizer import Tokenizer
from andes_jax.text.vocabulary import TokenizerParts


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff", "\ud83d and no partner"])
def test_lone_surrogates_are_a_clear_value_error(text: str, smollm2: Tokenizer) -> None:
    for parse_special in (True, False):
        with pytest.raises(ValueError, match="lone surrogate at character") as raised:
            smollm2.encode(text, add_special=False, parse_special=parse_special)
        str(raised.value).encode()  # fit for an error reply


def test_an_empty_text_has_no_tokens(smollm2: Tokenizer) -> None:
    assert smollm2.encode("", add_special=True) == [] and smollm2.decode([]) == ""


def test_long_runs_of_one_character_stay_fast_and_whole(smollm2: Tokenizer) -> None:
    for character in (" ", "a", "\n", "0", "\U0001f600"):
        text = character * 100_000
        assert smollm2.decode(smollm2.encode(text, add_special=False)) == text


def test_threads_share_one_tokenizer(smollm2: Tokenizer) -> None:
    draw = random.Random(1)
    words = ["hello", " world", "<|im_end|>", "你好", "\U0001f600", "  ", "\n", "123"]
    texts = ["".join(draw.choices(words, k=draw.randint(1, 200))) for _ in range(64)]

    def work(index: int) -> list[int]:
        return smollm2.encode(texts[index % 64], add_special=True, parse_special=bool(index % 2))

    expected = [work(index) for index in range(128)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(128))) == expected


def word_list_tokenizer(**ids: int) -> Tokenizer:
    """A model that looks whole stretches of text up, so that text alone can reach a control token."""
    vocabulary = {"<s>": 0, "<": 1, "s": 2, ">": 3, "~": 4} | ids
    backend = Backend(models.BPE(vocabulary, [], ignore_merges=True))
    backend.add_tokens([AddedToken("<s>", special=True, normalized=False)])
    table = TokenTable([token.encode() for token in vocabulary], [0])
    return Tokenizer(TokenizerParts(backend, table, frozenset((0, 4)), bos_id=0, eos_ids=()))


def test_a_vocabulary_that_makes_control_tokens_of_plain_text_is_spelt_out() -> None:
    tokenizer = word_list_tokenizer()
    assert tokenizer.encode("<s>", add_special=False) == [0]
    assert tokenizer.encode("<s>", add_special=False, parse_special=False) == [1, 2, 3]


def test_a_character_that_is_only_a_control_token_is_refused() -> None:
    with pytest.raises(ValueError, match="'~', which this model has only as a control token"):
        word_list_tokenizer().encode("~", add_special=False, parse_special=False)
