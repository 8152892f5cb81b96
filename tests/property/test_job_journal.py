"""A batch job whose journal was cut at any byte ends in the same files, and asks only for what was cut off."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from andes_jax.jobs.batch import BatchRun
from andes_jax.jobs.client import Reply
from andes_jax.jobs.folder import open_job
from andes_jax.jobs.keeper import Keeper
from andes_jax.jobs.tally import Tally
from tests.unit.jobs.parts import Waits


class Echo:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def post(self, path, body):
        self.asked.append(body["prompt"])
        return Reply(400 if "x" in body["prompt"] else 200, {"text": body["prompt"] * 2}, "")


def run(folder: Path) -> tuple[bytes, list[str]]:
    """Both files of a run, and what it asked for."""
    echo, files = Echo(), (folder / "output", folder / "errors")
    with open_job(folder / "job", {}) as journal:
        batch = BatchRun(folder / "calls", journal, Keeper(journal, Waits().patience, print), Tally())
        asyncio.run(batch.run(echo, 3))
        batch.write(*files)
    return b"|".join(file.read_bytes() for file in files), echo.asked


@settings(max_examples=25, deadline=None)
@given(
    prompts=st.lists(st.text("abx天\n", max_size=8), min_size=1, max_size=6),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.sampled_from([b"", b"\0" * 9, b"00000000 [", b"\n"])), max_size=3),
)
def test_the_rows_are_the_same_wherever_the_journal_was_cut(prompts, cuts):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [
            json.dumps({"custom_id": f"{n}", "method": "POST", "url": "/v1/completions", "body": {"prompt": prompt}})
            for n, prompt in enumerate(prompts)
        ]
        (folder / "calls").write_text("\n".join(lines))
        whole, asked = run(folder)
        assert sorted(asked) == sorted(prompts)
        for share, rest in cuts:
            journal = folder / "job" / "journal"
            data = journal.read_bytes()
            cut = data[: round(share * len(data))]
            journal.write_bytes(cut + rest)
            again, asked = run(folder)
            assert again == whole
            assert len(asked) == len(prompts) - cut.count(b"\n")
