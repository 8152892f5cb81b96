"""Failures that explain themselves: what the user can put right, in words for the user."""

from __future__ import annotations


class UserError(Exception):
    """One line that says what is wrong and what to do. The command line shows it as it is, without a traceback."""

    exit_code = 1


class UsageError(UserError):
    """Arguments or settings that are wrong in themselves."""

    exit_code = 2
