"""How a command fails: one line on stderr and an exit code, and a traceback only for those who asked for one."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise

from andes_jax.config import debug_requested
from andes_jax.failure import UserError
from andes_jax.request import Refusal


class CommandError(UserError):
    """A command cannot do what was asked; the message says what is wrong and what to do."""


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Tell the user about `error` on stderr; returns the exit code: 2 for wrong use, else 1."""
    if debug_requested() or _debug_level(arguments):
        traceback.print_exception(error)
    message = " ".join(_words(error).split()) or type(error).__name__
    if not explains_itself(error):
        message = f"unexpected {type(error).__name__}: {message} (ANDES_DEBUG=1 shows where)"
    print(f"andes-jax: {message}", file=sys.stderr)
    return error.exit_code if isinstance(error, UserError) else 1


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def explains_itself(error: Exception) -> bool:
    """Whether an error's message is written for the user."""
    return isinstance(error, UserError | Refusal | OSError)


def _debug_level(arguments: Sequence[str]) -> bool:
    pairs = pairwise([*arguments, ""])
    return any(f"{first}={second}" == "--log-level=debug" or first == "--log-level=debug" for first, second in pairs)
