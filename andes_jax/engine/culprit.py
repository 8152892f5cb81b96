"""Finds the one request whose steps fail, by running ever smaller groups of the suspects alone."""

from __future__ import annotations

from collections.abc import Sequence


class CulpritSearch:
    """A halving search. Run `trial` alone, then say `passed` or `failed`, until `over`.

    Nobody is named without failing alone, so a fault that does not come back costs no request. At most about
    2 log2(suspects) trials.
    """

    def __init__(self, suspects: Sequence[str]) -> None:
        """Raises ValueError without suspects."""
        if not suspects:
            raise ValueError("no suspects")
        self.culprit: str | None = None
        self._groups: list[tuple[str, ...]] = []  # yet to be tried, the next one last
        self._siblings: list[bool] = []  # per group: guilty if the group tried before it passes
        self._push(tuple(suspects))

    def _push(self, group: tuple[str, ...]) -> None:
        """Try the halves of a group that failed together; one suspect is tried alone."""
        if len(group) == 1:
            self._groups.append(group)
            self._siblings.append(False)
            return
        middle = len(group) // 2
        self._groups += [group[middle:], group[:middle]]
        self._siblings += [True, False]

    @property
    def over(self) -> bool:
        """Whether the culprit is found or nobody is left to try."""
        return self.culprit is not None or not self._groups

    @property
    def trial(self) -> tuple[str, ...]:
        """The group to run alone now."""
        return self._groups[-1]

    def failed(self) -> str | None:
        """The trial failed; returns the culprit if that settles it."""
        group = self._groups[-1]
        self._groups.clear()
        self._siblings.clear()
        if len(group) == 1:
            self.culprit = group[0]
            return self.culprit
        self._push(group)
        return None

    def passed(self) -> None:
        """The trial ran well. If its other half must then be the guilty one, that is halved at once."""
        self._groups.pop()
        self._siblings.pop()
        if self._groups and self._siblings[-1] and len(self._groups[-1]) > 1:
            self._siblings.pop()
            self._push(self._groups.pop())
