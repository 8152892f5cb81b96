"""Quality of experience: how well a stream of tokens kept up with its reader, from 0 to 1.

Both definitions are of "Andes: Defining and Enhancing Quality-of-Experience in LLM-Based Text Streaming Services"
(arXiv 2404.16283); its first version has `v1`, its second `v2`, the figure that andes-jax reports and schedules for.
The paper leaves cases open, decided here: no token at all scores 0; a single token, or a stream over before anything
was expected of it, scores 1 when its first token was in time and else expected over actual time to the first token.

Neither is monotone in the delay of one token. Both compare what the reader missed with a whole that grows with the
last token's time, so that of two streams that began late, the one whose last token came later may score higher.
What holds: delaying all tokens alike, or the first k alike, never raises either; nor does a delay that leaves the
last token where it was raise `v1`; and no delay raises a 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from andes_jax.request import QoeTarget

PERFECT = 0.99
"""The score from which the paper calls a stream perfect."""

_Times = npt.ArrayLike  # [n] seconds from the request's arrival, ascending


def v1(token_times_s: _Times, target: QoeTarget) -> float:
    """Area under the read tokens over area under the expected ones, from arrival to the last token, at most 1.

    `token_times_s` is [n], seconds from arrival, ascending. The reader reads what has come, no faster than expected.
    """
    times = np.asarray(token_times_s, np.float64)
    if times.size < 2:
        return _of_first_token(times, target)
    per_token_s = 1.0 / target.tokens_per_s
    last_s = times[-1]
    expected = float(_ramps(np.asarray(last_s - target.first_token_s), times.size * per_token_s)) * target.tokens_per_s
    if expected <= 0.0:
        return _of_first_token(times, target)
    due_s = np.arange(times.size) * per_token_s
    read_from_s = due_s + np.maximum.accumulate(times - due_s)  # when the reader begins with each token
    read = float(_ramps(last_s - read_from_s, per_token_s).sum()) * target.tokens_per_s
    return min(1.0, read / expected)


def v2(token_times_s: _Times, target: QoeTarget) -> float:
    """One minus the reader's lateness, summed over tokens, over the most it could have been; from 0 to 1.

    `token_times_s` is [n], seconds from arrival, ascending. As in the authors' code, token i counts as late by where
    the reader stands before waiting for it: a stall shows from the token after the one that stalled.
    """
    times = np.asarray(token_times_s, np.float64)
    count = times.size
    if count < 2:
        return _of_first_token(times, target)
    per_token_s = 1.0 / target.tokens_per_s
    # The reader's time less the expected one at every token: it only ever grows, by tokens that come after both.
    late_s = np.empty(count + 1)
    late_s[0] = times[0]
    late_s[1:] = times - np.arange(1, count + 1) * per_token_s
    late_s -= target.first_token_s
    np.maximum.accumulate(late_s, out=late_s)
    whole = count * (late_s[-1] + count * per_token_s / 2)
    if whole <= 0.0:
        return _of_first_token(times, target)
    gap = np.maximum(late_s[:-1], 0.0).sum()
    return min(1.0, max(0.0, float(1.0 - gap / whole)))


def _of_first_token(times: npt.NDArray[np.float64], target: QoeTarget) -> float:
    if not times.size:
        return 0.0
    return 1.0 if times[0] <= target.first_token_s else float(target.first_token_s / times[0])


def _ramps(elapsed_s: npt.NDArray[np.float64], rising_s: float) -> npt.NDArray[np.float64]:
    """Areas under lines that rise with slope 1 for `rising_s` seconds and then stay, after `elapsed_s` of each."""
    risen_s = np.clip(elapsed_s, 0.0, rising_s)
    area: npt.NDArray[np.float64] = risen_s * (np.maximum(elapsed_s, 0.0) - risen_s / 2)
    return area
