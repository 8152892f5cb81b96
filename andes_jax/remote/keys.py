"""API keys as callers send them: `Bearer KEY`."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

NO_KEY = "You didn't provide an API key: send the header 'Authorization: Bearer YOUR_KEY'."
WRONG_KEY = "Incorrect API key provided."


def fault_of_key(given: Sequence[bytes], keys: Sequence[bytes]) -> str | None:
    """What is wrong with a call's authorization, to be shown to the caller; None: it holds one of the keys.

    `given` are the values of its authorization headers. No keys leave everything open.
    """
    if not keys:
        return None
    if not given:
        return NO_KEY
    scheme, _, key = given[0].partition(b" ")
    # Every key is compared, in constant time each, so that the time taken tells nothing.
    matches = [hmac.compare_digest(key.strip(), known) for known in keys]
    if len(given) != 1 or scheme.lower() != b"bearer" or not any(matches):
        return WRONG_KEY
    return None
