"""What keeps one document from being read. The others go on."""

from __future__ import annotations


class UnreadableError(Exception):
    """The message says what is wrong, in a sentence about the document."""
