"""Tokenizers of Hugging Face folders, made here with the tokenizers library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from andes_jax.text.tokenizer import TokenizerError, from_hf_folder

MARK = "\u2581"


def byte_level_backend() -> Backend:
    backend = Backend(
        models.BPE({"h": 0, "i": 1, "hi": 2, "Ġ": 3, "Ġhi": 4, "Ã": 5, "©": 6}, [("h", "i"), ("Ġ", "hi")])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(
        [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False)]
    )
    backend.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return backend


def sentencepiece_backend(strip: bool = True) -> Backend:
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, "<0xC3>": 3, "<0xA9>": 4, MARK: 5, "h": 6, MARK + "h": 7}
    model = models.BPE(vocabulary, [(MARK, "h")], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    backend = Backend(model)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] if strip else steps)
    backend.add_tokens([AddedToken(token, special=True, normalized=False) for token in ("<unk>", "<s>", "</s>")])
    return backend


def folder(path: Path, backend: Backend, **files: dict[str, Any]) -> Path:
    backend.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def test_a_byte_level_folder_encodes_and_decodes_as_its_own_file_says(tmp_path: Path) -> None:
    backend = byte_level_backend()
    tokenizer = from_hf_folder(folder(tmp_path, backend))
    for text in ("hi hi", "hié</s>hi", "<think>hi"):
        ids = tokenizer.encode(text, add_special=True)
        assert ids == backend.encode(text).ids
        assert tokenizer.decode(ids) == backend.decode(ids)
        assert tokenizer.decode(ids, skip_special=False) == backend.decode(ids, skip_special_tokens=False) == text
    wary = tokenizer.encode("hi</s><think>", add_special=False, parse_special=False)
    assert 8 not in wary and 9 in wary


@pytest.mark.parametrize("strip", [True, False])
def test_a_sentencepiece_folder_decodes_as_its_own_file_says(strip: bool, tmp_path: Path) -> None:
    backend = sentencepiece_backend(strip)
    tokenizer = from_hf_folder(folder(tmp_path, backend))
    for text in ("h h", " h", "é", "<s>h</s>h"):
        ids = tokenizer.encode(text, add_special=False)
        assert ids == backend.encode(text).ids
        for skip in (True, False):
            assert tokenizer.decode(ids, skip) == backend.decode(ids, skip_special_tokens=skip)
    # An unknown character is honestly unknown, and not a user posing as a control token.
    assert tokenizer.encode("?", add_special=False, parse_special=False) == [5, 0]


@pytest.mark.parametrize("scheme", ["always", "never"])
def test_metaspace_decoders(scheme: str, tmp_path: Path) -> None:
    backend = sentencepiece_backend()
    backend.normalizer = None
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer = from_hf_folder(folder(tmp_path, backend))
    for text in ("h h", "h"):
        ids = tokenizer.encode(text, add_special=False)
        assert tokenizer.decode(ids) == backend.decode(ids) == text


def test_other_decoders_are_refused(tmp_path: Path) -> None:
    backend = byte_level_backend()
    backend.decoder = decoders.WordPiece()
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: decoder \['WordPiece'\]"):
        from_hf_folder(folder(tmp_path, backend))


@pytest.mark.parametrize(
    ("template", "settings", "expected"),
    [
        (None, {}, [2]),
        ("<s> $A", {}, [7, 2]),
        ("<s> $A </s>", {}, [7, 2, 8]),
        ("$A </s>", {}, [2, 8]),
        (None, {"add_bos_token": True, "bos_token": "<s>"}, [7, 2]),
        ("<s> $A", {"add_bos_token": False, "bos_token": {"content": "<s>"}}, [2]),
        ("<s> $A", {"add_bos_token": True, "bos_token": "<s>"}, [7, 2]),
        (None, {"add_eos_token": True, "eos_token": "</s>"}, [2, 8]),
        ("<s> $A", {"add_bos_token": None}, [7, 2]),
    ],
)
def test_add_special_follows_the_folder(
    template: str | None, settings: dict[str, Any], expected: list[int], tmp_path: Path
) -> None:
    backend = byte_level_backend()
    if template is not None:
        backend.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=[("<s>", 7), ("</s>", 8)]
        )
    tokenizer = from_hf_folder(folder(tmp_path, backend, tokenizer_config=settings))
    assert tokenizer.encode("hi", add_special=True) == expected
    assert tokenizer.encode("hi", add_special=False) == [2]


def test_ends_come_from_every_file_that_names_one(tmp_path: Path) -> None:
    tokenizer = from_hf_folder(
        folder(
            tmp_path,
            byte_level_backend(),
            generation_config={"eos_token_id": [8, 5]},
            config={"eos_token_id": 6, "bos_token_id": 7, "vocab_size": 16},
            tokenizer_config={"eos_token": "</s>"},
        )
    )
    assert (tokenizer.eos_ids, tokenizer.bos_id) == ((8, 5, 6), 7)
    assert tokenizer.vocab_size == 16 and tokenizer.decode([2, 15]) == "hi"


def test_a_text_part_of_a_larger_model_counts_as_the_model(tmp_path: Path) -> None:
    config = {"text_config": {"eos_token_id": 8, "vocab_size": 12}}
    tokenizer = from_hf_folder(folder(tmp_path, byte_level_backend(), config=config))
    assert (tokenizer.eos_ids, tokenizer.vocab_size) == ((8,), 12)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.json", "{", r"tokenizer\.json: not a tokenizer"),
        ("tokenizer_config.json", "{", r"tokenizer_config\.json: not readable as JSON"),
        ("generation_config.json", "[]", r"generation_config\.json: holds list"),
        ("config.json", b"\xff\xfe", r"config\.json: not readable"),
    ],
)
def test_damaged_files_are_named(name: str, content: str | bytes, words: str, tmp_path: Path) -> None:
    path = folder(tmp_path, byte_level_backend()) / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TokenizerError, match=words):
        from_hf_folder(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"neither tokenizer\.json nor tokenizer\.model"):
        from_hf_folder(tmp_path)


def test_padding_and_truncation_of_the_file_do_not_touch_prompts(tmp_path: Path) -> None:
    backend = byte_level_backend()
    backend.enable_truncation(2)
    backend.enable_padding(length=8, pad_id=0, pad_token="h")
    assert from_hf_folder(folder(tmp_path, backend)).encode("hi hi hi", add_special=True) == [2, 4, 4]
