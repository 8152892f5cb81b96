"""Files, folders, globs, JSON lines and standard input as documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from andes_jax.failure import UsageError
from andes_jax.jobs.documents import sources
from andes_jax.jobs.documents.sources import Document, find_files, sources_of

OUTPUT = Path("summaries.jsonl")


def read_documents(files, text_field, standard_input=b""):
    return [source.read(text_field) for source in sources_of(files, standard_input)]


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.md", "sub/c.RST", "sub/.hidden/d.txt", "image.png", ".e.txt", "lines.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
    return tmp_path


def names(found, folder):
    return [path and path.relative_to(folder).as_posix() for path in found]


def test_folders_globs_and_files_each_once_and_in_order(folder):
    assert names(find_files([str(folder)], OUTPUT), folder) == ["a.md", "b.txt", "lines.jsonl", "sub/c.RST"]
    some = [f"{folder}/b.txt", f"{folder}/*.md", "-", f"{folder}/**/*.RST", str(folder / "b.txt")]
    assert names(find_files(some, OUTPUT), folder) == ["b.txt", "a.md", None, "sub/c.RST"]
    assert names(find_files([f"{folder}/image.png"], OUTPUT), folder) == ["image.png"], "what is named is taken"


def test_what_an_earlier_run_wrote_is_no_document(folder):
    output = folder / "sub" / ".." / "lines.jsonl"
    assert names(find_files([str(folder)], output), folder) == ["a.md", "b.txt", "sub/c.RST"]
    assert names(find_files([f"{folder}/*.md", f"{folder}/*.jsonl"], output), folder) == ["a.md"]
    with pytest.raises(UsageError, match="both as a document and as --output"):
        find_files([f"{folder}/a.md", f"{folder}/lines.jsonl"], output)


def test_what_names_nothing_is_told(tmp_path):
    with pytest.raises(UsageError, match="nothing.txt names no file"):
        find_files([f"{tmp_path}/nothing.txt"], OUTPUT)
    with pytest.raises(UsageError, match="no files of a known format"):
        find_files([str(tmp_path)], OUTPUT)


def test_a_file_that_cannot_be_read_is_a_document_with_an_error(folder):
    (folder / "empty.txt").write_bytes(b" \n")
    (folder / "binary.bin").write_bytes(b"\x7fELF\0\1\0\0")
    paths = [folder / "b.txt", folder / "gone.txt", folder / "empty.txt", folder / "binary.bin"]
    read = list(read_documents(paths, "text"))
    assert [each.text for each in read] == ["text of b.txt", None, None, None]
    assert "No such file" in read[1].error and read[2].error == "it is empty" and "binary" in read[3].error


def test_each_line_is_a_document_of_its_own(tmp_path):
    path = tmp_path / "d.jsonl"
    lines = [
        {"id": "x", "text": "one\u2028two"},
        {"text": "three"},
        {"id": 7, "body": "no"},
        [1],
        {"id": "e", "text": ""},
    ]
    path.write_text("\n".join([*map(json.dumps, lines), "{"]) + "\n")
    read = list(read_documents([path], "text"))
    assert [each.name.rpartition("#")[2] for each in read] == ["x", "2", "7", "4", "e", "6"]
    assert read[0] == Document(f"{path}#x", "one\u2028two")
    assert [each.text for each in read[2:]] == [None] * 4
    assert "--text-field" in read[2].error and "valid JSON" in read[5].error
    assert read_documents([path], "id")[0].text == "x"


def test_a_line_that_is_too_long_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 30)
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"text": "x" * 50}) + '\n{"text": "y"}\n')
    assert [each.text for each in read_documents([path], "text")] == [None, "y"]


def test_standard_input_is_a_text():
    data = "天气".encode("gb18030") * 9
    assert read_documents([None], "text", data) == [Document("-", "天气" * 9)]


def test_a_file_of_lines_that_is_gone_is_one_error(tmp_path):
    (read,) = read_documents([tmp_path / "gone.jsonl"], "text")
    assert read.text is None and "No such file" in read.error
