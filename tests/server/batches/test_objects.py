"""Objects as the openai client reads them, and as they are kept."""

from __future__ import annotations

from openai.types import Batch as TheirBatch
from openai.types import FileObject

from server.batches.objects import Batch, StoredFile
from tests.server.batches.parts import NOW, mk_batch


def test_the_client_finds_all_it_knows_in_them():
    shown = StoredFile("file-1", "a.jsonl", 3, "batch", NOW, NOW + 9).shown()
    assert FileObject.model_validate(shown, strict=True).to_dict() == shown
    fault = {"code": "empty_file", "message": "no lines", "param": None, "line": None}
    batch = mk_batch(metadata={"a": "b"}, total=3, completed=1, failed=2).become("failed", NOW, errors=(fault,))
    theirs = TheirBatch.model_validate(batch.shown())
    assert theirs.request_counts.to_dict() == {"total": 3, "completed": 1, "failed": 2}
    assert theirs.errors.data[0].code == "empty_file" and theirs.failed_at == NOW and theirs.metadata == {"a": "b"}
    assert TheirBatch.model_validate(mk_batch().shown()).errors is None


def test_a_batch_comes_back_as_it_was_kept():
    batch = mk_batch(output_seconds=3600, metadata={"x": "\u2028"}, errors=({"code": "c"},)).with_file(
        "error_file_id", "file-e"
    )
    assert Batch.unpack(batch.pack()) == batch
