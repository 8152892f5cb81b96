"""How byte-level BPE vocabularies cut a text into words before merging, by the name GGUF gives in `tokenizer.ggml.pre`.

The patterns are those of the models' own tokenizer.json files.
"""

from __future__ import annotations

from dataclasses import dataclass

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_QWEN2 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_QWEN35 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _SPACES
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
_TEKKEN = _CASED % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _SPACES
_GPT4O = _CASED % (_CONTRACTION + "?", _CONTRACTION + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _SPACES
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
)
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")
_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")


@dataclass(frozen=True)
class PreTokenizer:
    """Cuts that each split what the ones before left; matches stand alone, and so does what lies between them."""

    patterns: tuple[str, ...]
    compose: bool = False  # Unicode NFC first
    ignore_merges: bool = False  # a word that is a token needs no merges
    add_bos: bool = False  # unless the file says otherwise


def _named() -> dict[str, PreTokenizer]:
    groups = {
        "gpt-2 phi-2 mpt olmo jais exaone4 gigachat a.x-4.0 mellum trillion": PreTokenizer((_GPT2,)),
        "smollm starcoder refact command-r codeshell exaone minerva-7b": PreTokenizer((r"\p{N}", _GPT2)),
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral": PreTokenizer(
            (_LLAMA3,), ignore_merges=True, add_bos=True
        ),
        "smaug-bpe dbrx": PreTokenizer((_LLAMA3,)),
        "qwen2 deepseek-r1-qwen megrez": PreTokenizer((_QWEN2,), compose=True),
        "qwen35": PreTokenizer((_QWEN35,), compose=True),
        "stablelm2 hunyuan": PreTokenizer((_QWEN2,)),
        "tekken": PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True),
        "gpt-4o llama4": PreTokenizer((_GPT4O,)),
        "deepseek-v3": PreTokenizer(_DEEPSEEK3),
        "deepseek-coder": PreTokenizer(_DEEPSEEK_CODER),
        "default": PreTokenizer(_DEFAULT),
    }
    return {name: value for names, value in groups.items() for name in names.split()}


PRE_TOKENIZERS = _named()
"""By name; a name that is not here is not supported."""
