"""ROUGE (Lin 2004) without stemming: F1 over words, or over characters where a text is Chinese."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from andes_jax.jobs.summaries.language import is_chinese

KINDS = ("1", "2", "L")
_TOKEN = re.compile(r"[\u3400-\u9fff]|[a-z0-9]+")


def tokens_of(text: str) -> list[str]:
    """Lower-case words of ASCII letters and digits, and single Chinese characters."""
    return _TOKEN.findall(text.lower())


def length_of(text: str) -> int:
    """Words, or Chinese characters and words, of a text."""
    return len(tokens_of(text))


def rouge(summary: str, references: Sequence[str]) -> dict[str, float]:
    """F1 of each kind, against the reference that suits it best."""
    best = dict.fromkeys(KINDS, 0.0)
    for reference in references:
        for kind, value in _against(tokens_of(summary), tokens_of(reference)).items():
            best[kind] = max(best[kind], value)
    return best


def _against(found: list[str], wanted: list[str]) -> dict[str, float]:
    scores = {kind: _overlap(found, wanted, int(kind)) for kind in KINDS[:2]}
    return scores | {"L": _f1(longest_common(found, wanted), len(found), len(wanted))}


def _overlap(found: list[str], wanted: list[str], size: int) -> float:
    """F1 over runs of so many tokens."""
    ours, theirs = (Counter(zip(*(each[start:] for start in range(size)), strict=False)) for each in (found, wanted))
    return _f1((ours & theirs).total(), ours.total(), theirs.total())


def _f1(common: int, found: int, wanted: int) -> float:
    return 2 * common / (found + wanted) if common else 0.0


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for each in first:
        before = 0
        for place, other in enumerate(second, 1):
            before, row[place] = row[place], before + 1 if each == other else max(row[place], row[place - 1])
    return row[-1]


def lead(text: str, length: int) -> str:
    """The beginning of a text, as long as `length` words or characters."""
    if is_chinese(text):
        parts = re.findall(r"[\u3400-\u9fff]|[A-Za-z0-9]+|.", text, re.DOTALL)
        counted = [bool(_TOKEN.fullmatch(part.lower())) for part in parts]
        taken = 0
        for place, counts in enumerate(counted):
            taken += counts
            if taken > length:
                return "".join(parts[:place])
        return text
    return " ".join(text.split()[:length])
