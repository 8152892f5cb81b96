"""Forms in every cut, with every name, and the broken ones."""

from __future__ import annotations

import random

import pytest

from server.batches.form import MOST_FIELD_BYTES, MOST_FIELDS, Form
from server.errors import ApiError
from tests.server.batches.forms import BOUNDARY, KIND, field, file, form


def read(body: bytes, step: int | None = None, kind: str = KIND) -> tuple[Form, bytes]:
    """The form and its file, fed in pieces of `step` bytes."""
    made = Form(kind)
    step = step or max(len(body), 1)
    return made, b"".join(made.feed(body[at : at + step]) for at in range(0, len(body), step))


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, None])
def test_fields_and_file_come_whole_however_they_are_cut(step):
    content = b"\r\n--" + BOUNDARY[:-1] + b"\r\n\x00\xff\r\n--\r\n" + random.Random(1).randbytes(500)
    made, got = read(form(field("purpose", "batch"), file(content, "a.jsonl"), field("x", "y ü")), step)
    assert got == content and made.fields == {"purpose": "batch", "x": "y ü"}
    assert made.filename == "a.jsonl" and made.ended


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("名 前🙂.jsonl", "名 前🙂.jsonl"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.jsonl", "x.jsonl"),
        ("..\\..\\x", "x"),
        ("a/", "upload"),
        ("", "upload"),
        ("..", ".."),
        ("x" * 1000, "x" * 255),
        ("<script>&'%22", "<script>&'%22"),
        ("\x00\x1b[2J", "\x00\x1b[2J"),
    ],
)
def test_names_lose_their_folders_and_nothing_else(name, kept):
    assert read(form(file(b"x", name)))[0].filename == kept


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (form(file(b"x")), "multipart/form-data", "boundary"),
        (form(file(b"x")), "multipart/form-data; boundary=", "boundary"),
        (form(file(b"x")), f"multipart/form-data; boundary={'x' * 201}", "boundary"),
        (form(file(b"x")), f"{KIND}; charset=utf-7", "charset"),
        (b"no form at all", KIND, "broken"),
        (form(file(b"x")).replace(BOUNDARY, b"other", 1), KIND, "broken"),
        (form(b"Content-Disposition: form-data\r\n\r\nx"), KIND, "no name"),
        (form(b"\r\nx"), KIND, "no name"),
        (form(b'Content-Disposition: form-data; name="\xff"\r\n\r\nx'), KIND, "UTF-8"),
        (form(b'Content-Disposition: form-data; name="file"; filename="\xff"\r\n\r\nx'), KIND, "UTF-8"),
        (form(b'Content-Disposition: form-data; name="a"\r\n\r\n\xff'), KIND, "UTF-8"),
        (form(field("a", "x" * (MOST_FIELD_BYTES + 1))), KIND, "bytes"),
        (form(*(field(f"f{number}", "x") for number in range(MOST_FIELDS + 1))), KIND, "fields"),
        (form(b"x: " + b"y" * 100_000 + b"\r\n\r\nx"), KIND, "broken"),
        (form(file(b"x"), file(b"y")), KIND, "more than one file"),
        (form(file(b"x", part="other")), KIND, "other"),
        (form(field("a", "x"), field("a", "y")), KIND, "twice"),
    ],
)
def test_what_is_wrong_is_said(body, kind, words):
    with pytest.raises(ApiError, match=words) as raised:
        read(body, kind=kind)
    assert raised.value.status == 400 and raised.value.code


@pytest.mark.parametrize("left", [1, 3, 20])
def test_a_form_without_its_end_has_not_ended(left):
    whole = form(file(b"content"))
    assert not read(whole[: -len(b"--\r\n") - left])[0].ended
    assert read(b"")[0].filename is None


def test_the_file_is_not_held():
    made = Form(KIND)
    made.feed(form(file(b""))[: -len(BOUNDARY) - 8])
    for _ in range(100):
        made.feed(b"x" * 65536)
        assert made._content == []
