"""Step times from measured costs, cut and padded as the runner cuts and pads, and the file that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from andes_jax.failure import UserError
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.step_time import StepWork

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0)]


class ProfileFileError(UserError):
    """A file that is no profile, or not one that this version reads."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class ProgramCost(_Value):
    """Seconds of one compiled program: base_s, and slope_s for each unit of what its attention works through."""

    size: Count  # rows of a decode, queries of a prefill
    base_s: Seconds
    slope_s: Seconds  # for a position that a decode attends to; for a pair of query and key of a prefill


class Costs(_Value):
    """What steps are made of. A step costs its programs, its copies, and what its host adds to it.

    A decode program costs by its compiled rows, however many of them are used. A prompt's slice is cut into programs as
    `Ladder.cut` does; queries and pairs of padding cost only what is in base_s.
    """

    decode: Annotated[tuple[ProgramCost, ...], Field(min_length=1)]  # by ascending rows
    prefill: Annotated[tuple[ProgramCost, ...], Field(min_length=1)]  # by ascending queries
    copy_page_s: Seconds  # a page between device and host; 0 where pages are not copied
    step_s: Seconds  # that the engine's own work adds to a step on top, since it shares the machine with the device
    sequence_s: Seconds  # and that it adds for each decode

    @model_validator(mode="after")
    def _ascending(self) -> Costs:
        for programs in (self.decode, self.prefill):
            sizes = [program.size for program in programs]
            if sizes != sorted(set(sizes)):
                raise ValueError(f"sizes of programs {sizes} do not ascend")
        return self


class FitError(_Value):
    """Predicted against measured seconds of mixed steps that the costs were not fitted to, as shares of measured."""

    steps: Count
    median: Share  # of absolute errors
    worst: Share
    bias: float  # median of signed errors; above 0: predicted too long


class ProfileFile(_Value):
    """What `andes-jax profile` writes."""

    kind: Literal["andes-jax profile"] = "andes-jax profile"
    version: Literal[1] = 1
    name: str
    model: str
    device: str
    kv_tokens: Count
    page_tokens: Count
    max_sequences: Count
    max_model_len: Count
    step_tokens: Count
    prefill_chunk: Count
    host_s: Seconds  # of the engine's own work for a step of max_sequences decodes
    costs: Costs
    error: FitError | None  # None where it was not measured

    def write(self, path: Path) -> None:
        """Raises UserError where it cannot be written."""
        try:
            path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def read_profile_file(path: Path) -> ProfileFile:
    """The profile in a file. Raises ProfileFileError."""
    try:
        return ProfileFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ProfileFileError(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        words = f"{where}: {first['msg']}" if where else first["msg"]
        raise ProfileFileError(f"{path} is no profile that `andes-jax profile` wrote: {words}") from error


class FittedTimes:
    """`MachineTimes` of measured costs."""

    def __init__(self, costs: Costs) -> None:
        self._ladder = Ladder(
            tuple(program.size for program in costs.decode), tuple(program.size for program in costs.prefill)
        )
        most = costs.decode[-1].size
        by_rows = {program.size: program for program in costs.decode}
        # index: number of decodes
        of_count = [by_rows[self._ladder.rows_for(count)] for count in range(1, most + 1)]
        extra_s = [costs.step_s + costs.sequence_s * count for count in range(most + 1)]
        self._decode_s = [extra_s[0]] + [
            program.base_s + extra_s[count] for count, program in enumerate(of_count, start=1)
        ]
        self._position_s = [0.0] + [program.slope_s for program in of_count]
        self._prefill = {program.size: (program.base_s, program.slope_s) for program in costs.prefill}
        self._copy_page_s = costs.copy_page_s

    def seconds(self, work: StepWork) -> float:
        """See `StepTimes.seconds`; raises IndexError for more decodes than any program has rows."""
        decodes, context, prefills, copied_pages = work
        seconds = copied_pages * self._copy_page_s
        if not decodes and not prefills:
            return seconds
        seconds += self._decode_s[decodes] + context * self._position_s[decodes]
        for count, before in prefills:
            for queries in self._ladder.cut(count):
                taken = queries if queries < count else count
                base_s, pair_s = self._prefill[queries]
                seconds += base_s + pair_s * pairs_of(taken, before)
                count -= taken
                before += taken
        return seconds

    def decode_seconds(self, decodes: int, contexts: np.ndarray) -> np.ndarray:
        """See `MachineTimes.decode_seconds`."""
        return self._decode_s[decodes] + np.asarray(contexts) * self._position_s[decodes]


def pairs_of(count: int, before: int) -> float:
    """Pairs of query and key of `count` queries after `before` positions: each sees those, itself and its elders."""
    return count * (before + (count + 1) / 2)
