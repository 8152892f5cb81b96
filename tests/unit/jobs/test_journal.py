"""The journal: every prefix of it is a journal, and a full disk leaves it as it was."""

from __future__ import annotations

import errno
import os

import pytest

from andes_jax.jobs.journal import DiskFull, Journal

RECORDS = {"a": {"text": "one\ntwo"}, "天": [1, None], "c": "x" * 30}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "journal"
    with Journal(path) as journal:
        for key, value in RECORDS.items():
            journal.put(key, value)
    return path


def contents(journal: Journal) -> dict:
    return {key: journal.get(key) for key in RECORDS if key in journal}


def test_what_was_put_is_there_again_and_the_last_counts(path):
    with Journal(path) as journal:
        assert (contents(journal), len(journal), journal.damaged) == (RECORDS, 3, 0)
        journal.put("a", 2)
        assert journal.get("a") == 2 and journal.get("nobody") is None
    with Journal(path) as journal:
        assert journal.get("a") == 2 and len(journal) == 3


def test_cut_at_any_byte_it_holds_the_records_before_and_goes_on(path):
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    assert len(ends) == 3
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = dict(list(RECORDS.items())[: sum(end <= cut for end in ends)])
        with Journal(path) as journal:
            assert contents(journal) == kept, cut
            journal.put("new", cut)
        with Journal(path) as journal:
            assert contents(journal) == kept and journal.get("new") == cut and journal.damaged == 0


@pytest.mark.parametrize("rest", [b"\0" * 40, b"\0\n\0\n", b'00000000 ["a",0]\n', b"\n\n"])
def test_what_is_no_record_at_the_end_is_dropped(path, rest):
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    with Journal(path) as journal:
        assert contents(journal) == RECORDS
    assert path.read_bytes() == whole


def test_a_changed_byte_loses_its_own_record_alone(path):
    whole = bytearray(path.read_bytes())
    whole[12] ^= 1
    path.write_bytes(whole)
    with Journal(path) as journal:
        assert contents(journal) == {key: RECORDS[key] for key in ("天", "c")}
        assert journal.damaged == 1


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, OSError)])
def test_a_write_that_fails_half_way_leaves_no_trace(path, monkeypatch, number, kind):
    whole, write = path.read_bytes(), os.pwrite

    def half(descriptor, data, offset):
        if offset > len(whole):
            raise OSError(number, os.strerror(number))
        return write(descriptor, data[:5], offset)

    with Journal(path) as journal:
        monkeypatch.setattr(os, "pwrite", half)
        with pytest.raises(OSError) as caught:
            journal.put("d", 1)
        assert type(caught.value) is kind and "d" not in journal
        assert path.read_bytes() == whole
        monkeypatch.undo()
        journal.put("d", 2)
        assert journal.get("d") == 2 and contents(journal) == RECORDS


def test_a_record_that_went_bad_underneath_is_not_given_out(path):
    with Journal(path) as journal:
        path.write_bytes(b"x" * path.stat().st_size)
        with pytest.raises(OSError, match="no longer"):
            journal.get("a")
