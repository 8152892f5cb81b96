"""How a step's prompt tokens are shared between batch prompts and others."""

from __future__ import annotations

from andes_jax.request import Tier
from andes_jax.scheduling.pacing import LEAST_TOKENS
from andes_jax.scheduling.sequence import Sequence

MOST_WITHOUT = 8  # steps in a row in which others leave batch prompts nothing; then they get LEAST_TOKENS


class PromptTokens:
    """The tokens that one step may spend on prompts. Of all of them the first `batch` may be batch prompts': others
    come first and leave those what is left of it. In batch prompts' turn LEAST_TOKENS are kept for them
    instead, or half of what there is."""

    def __init__(self, tokens: int, batch: int, *, turn: bool = False) -> None:
        self._tokens = tokens
        self._batch = min(tokens // 2, LEAST_TOKENS) if turn else min(tokens, batch)
        self.turn = turn
        self.batch_taken = 0

    def left(self, tier: Tier) -> int:
        """How many a prompt of this tier may have."""
        if tier is Tier.BATCH:
            return min(self._batch, self._tokens)
        return self._tokens - self._batch if self.turn else self._tokens

    def take(self, tier: Tier, tokens: int) -> None:
        """A prompt of this tier has got so many."""
        self._tokens -= tokens
        if tier is Tier.BATCH or not self.turn:
            self._batch = max(self._batch - tokens, 0)
        if tier is Tier.BATCH:
            self.batch_taken += tokens


class Overdue:
    """Sees to it that prompts that are begun get on whoever goes before them, batch prompts apart."""

    def __init__(self) -> None:
        self._without: dict[Sequence, int] = {}  # steps in a row in which a begun prompt got nothing, longest first

    def pick(self, prefills: list[Sequence]) -> Sequence | None:
        """The one of these begun prompts whose turn it is before all others, for LEAST_TOKENS or half of a step."""
        overdue = (each for each, steps in self._without.items() if steps >= MOST_WITHOUT and each in prefills)
        return next(overdue, None)

    def without(self, prefills: list[Sequence]) -> None:
        """The step is drafted, and these begun prompts got nothing of it."""
        late = [each for each in prefills if each.tier is not Tier.BATCH]
        if late or self._without:
            late.sort(key=lambda each: -self._without.get(each, 0))
            self._without = {each: self._without.get(each, 0) + 1 for each in late}


class BatchTurns:
    """Sees to it that batch prompts get on however many others come."""

    def __init__(self) -> None:
        self._without = 0  # steps in a row in which batch prompts wanted tokens and got none

    def tokens(self, tokens: int, batch: int) -> PromptTokens:
        """What the next step may spend, of which `batch` are for batch prompts when others leave them."""
        return PromptTokens(tokens, batch, turn=self._without >= MOST_WITHOUT)

    def spent(self, tokens: PromptTokens, *, wanted: bool) -> None:
        """The step is drafted; `wanted`: batch prompts waited for tokens of it. A turn that they could not use, as for
        want of slots, is over all the same: others get their tokens back."""
        self._without = self._without + 1 if wanted and not tokens.batch_taken and not tokens.turn else 0
