"""The file of results: whole after every item, so that nothing found is lost to whatever comes next."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


class Results:
    """What was found, part -> item -> its numbers, and the file that has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = {"parts": {}}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def add(self, part: str, item: str, found: dict[str, Any]) -> None:
        """Keep what an item gave, and write the file."""
        self.values["parts"].setdefault(part, {})[item] = plain(found)
        self._write()

    def note(self, name: str, value: Any) -> None:
        """Keep something about the whole run, and write the file."""
        self.values[name] = plain(value)
        self._write()

    def part(self, name: str) -> dict[str, dict[str, Any]]:
        """item -> numbers of a part; empty where it has not begun."""
        return dict(self.values["parts"].get(name, {}))

    def _write(self) -> None:
        beside = self.path.with_suffix(".partial")
        beside.write_text(json.dumps(self.values, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, self.path)


def plain(value: Any) -> Any:
    """The value as JSON has it: numbers that are not finite become words."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
