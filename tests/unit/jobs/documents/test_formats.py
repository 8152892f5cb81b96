"""Text from HTML, PDF and Word files, and what is said of broken ones."""

from __future__ import annotations

import sys

import pytest

from andes_jax.jobs.documents.failure import UnreadableError
from andes_jax.jobs.documents.formats import text_of, tidy
from tests.unit.jobs.documents.parts import docx_file, pdf_file

PAGE = """<html><head><title>The title</title><style>p {}</style></head><body><nav>menu</nav>
<h1>A heading</h1><p>One <b>bold</b>
line.</p><script>run()</script><ul><li>first</li><li>second &amp; last</li></ul><pre>a
b</pre></body></html>"""


def test_a_page_is_what_it_shows():
    shown = "The title\n\nA heading\n\nOne bold line.\n\nfirst\n\nsecond & last\n\na\n\nb"
    assert text_of(PAGE.encode(), ".html") == shown


@pytest.mark.parametrize(("declared", "encoding"), [("gb2312", "gb2312"), ("utf-8", "gb18030"), ("nothing", "big5")])
def test_a_page_says_its_encoding_and_may_be_wrong(declared, encoding):
    text = (
        "今天的天气很好，我们去公园散步，然后一起吃饭。" if encoding != "big5" else "今天的會議討論了區塊鏈技術的前景。"
    )
    page = f'<meta charset="{declared}"><p>{text}</p>'
    assert text_of(page.encode(encoding), ".htm") == text


def test_pages_of_a_pdf():
    assert text_of(pdf_file("Hello world", "Second page"), ".pdf") == "Hello world\n\nSecond page"


def test_paragraphs_and_tables_of_a_word_document():
    assert text_of(docx_file("One.", "天。", rows=(("a", "b"), ("c", "d"))), ".docx") == "One.\n\n天。\n\na\tb\n\nc\td"


@pytest.mark.parametrize(
    ("data", "suffix", "words"),
    [
        (b"no pdf", ".pdf", "no PDF"), (pdf_file("")[:200], ".pdf", "no PDF"), (pdf_file("", ""), ".pdf", "no text"),
        (b"PK no docx", ".docx", "no Word document"),
    ],
)  # fmt: skip
def test_broken_files_say_so(data, suffix, words):
    with pytest.raises(UnreadableError, match=words):
        text_of(data, suffix)


@pytest.mark.parametrize(("suffix", "module"), [(".html", "bs4"), (".pdf", "pypdf"), (".docx", "docx")])
def test_without_the_extra_it_is_named(monkeypatch, suffix, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnreadableError, match=r"pip install 'andes-jax\[documents\]'"):
        text_of(b"x", suffix)


def test_tidy_text_has_no_blanks_that_say_nothing():
    assert tidy("\n a \r\n\r\n\n\n b\t\n") == "a\n\n b"
