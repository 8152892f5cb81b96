"""Plain text from files of each format. What a format needs beyond the standard library is in the extra `documents`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from andes_jax.jobs.documents.decoding import decode
from andes_jax.jobs.documents.failure import UnreadableError

_BLOCKS = [
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre", "section",
    "table", "td", "th", "title", "tr", "ul",
]  # fmt: skip

_UNSEEN = ["script", "style", "noscript", "template", "nav", "svg"]


def text_of(data: bytes, suffix: str) -> str:
    """The text of a file with this suffix, such as .pdf. Raises UnreadableError."""
    return tidy(READERS[suffix](data))


def tidy(text: str) -> str:
    """Lines without blanks at their ends, and no more than one empty line between two."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return "\n".join(kept).strip()


def html_text(data: bytes) -> str:
    """What a page shows, a line for each block."""
    with _extra("HTML"):
        from bs4 import BeautifulSoup
        from bs4.dammit import EncodingDetector
    declared = EncodingDetector.find_declared_encoding(data, is_html=True)
    soup = BeautifulSoup(_declared(data, declared), "html.parser")
    for tag in soup(_UNSEEN):
        tag.decompose()
    for text in soup.find_all(string=True):  # line breaks in the source are blanks on the page
        if text.find_parent("pre") is None:
            text.replace_with(text.replace("\n", " "))
    for tag in soup(_BLOCKS):
        tag.insert_before("\n")
        tag.append("\n")
    lines = (" ".join(line.split()) for line in soup.get_text().split("\n"))
    return "\n\n".join(line for line in lines if line)


def _declared(data: bytes, encoding: str | None) -> str:
    if encoding is not None:
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):  # it says what it is not
            return decode(data)
    return decode(data)


def pdf_text(data: bytes) -> str:
    """The pages' text, an empty line between two."""
    with _extra("PDF"):
        from pypdf import PdfReader
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("it is encrypted")
        pages = [page.extract_text() for page in reader.pages]
    except UnreadableError:
        raise
    except Exception as error:  # its readers raise whatever a broken file leads them to
        raise UnreadableError(f"it is no PDF that can be read: {error}") from error
    text = "\n\n".join(pages)
    if pages and not text.strip():
        raise UnreadableError("its pages hold no text, as those of a scan")
    return text


def docx_text(data: bytes) -> str:
    """The paragraphs of a Word document, and its tables with a line for each row."""
    with _extra("Word"):
        from docx import Document
        from docx.table import Table
    try:
        document = Document(io.BytesIO(data))
        parts = []
        for each in document.iter_inner_content():
            if isinstance(each, Table):
                parts += ["\t".join(cell.text for cell in row.cells) for row in each.rows]
            else:
                parts.append(each.text)
    except Exception as error:  # its readers raise whatever a broken file leads them to
        raise UnreadableError(f"it is no Word document that can be read: {error}") from error
    return "\n\n".join(parts)


@contextmanager
def _extra(format_name: str) -> Iterator[None]:
    """For the import of a library of the extra; raises UnreadableError where it is not installed."""
    try:
        yield
    except ImportError:
        raise UnreadableError(f"{format_name} needs more to be read: pip install 'andes-jax[documents]'") from None


READERS: dict[str, Callable[[bytes], str]] = {
    ".txt": decode,
    ".text": decode,
    ".md": decode,
    ".markdown": decode,
    ".rst": decode,
    ".html": html_text,
    ".htm": html_text,
    ".pdf": pdf_text,
    ".docx": docx_text,
}
