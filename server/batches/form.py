"""A form with one file, parsed piece by piece as it comes. Of its file no more is held than one piece's worth."""

from __future__ import annotations

from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from server.errors import ApiError, quoted

MOST_FIELDS = 16
MOST_FIELD_BYTES = 4096  # of one field's name and text
MOST_NAME = 255  # characters of a file's name


class Form:
    """Fields and file of a form. Raises ApiError (400) for one that cannot be read."""

    def __init__(self, content_type: str) -> None:
        """`content_type` is the header of that name; the form's parts must be in UTF-8."""
        _, options = parse_options_header(content_type)
        if options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
            raise _unreadable("its charset must be utf-8")
        boundary = options.get(b"boundary", b"")
        if not 0 < len(boundary) <= 200:
            raise _unreadable("its Content-Type has no boundary")
        self.fields: dict[str, str] = {}
        self.filename: str | None = None  # as the client calls it, without folders; None: no file has begun
        self.ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_header_name,
                "on_header_value": self._add_header_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )
        self._content: list[bytes] = []  # of the file, not taken yet
        self._begin_part()

    def feed(self, data: bytes) -> bytes:
        """Parse what comes next; what it holds of the file."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise _unreadable("a part is broken") from None
        content, self._content = b"".join(self._content), []
        return content

    def _begin_part(self) -> None:
        self._header_name = self._header_value = b""
        self._disposition = b""
        self._name: str | None = None  # of a part that is a field
        self._text = b""

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise _unreadable("a part has no name")
        name = _decode(options[b"name"])
        if b"filename" in options:
            if name != "file":
                raise ApiError(f"Unrecognized request argument supplied: {quoted(name)}.", **_unknown(name))
            if self.filename is not None:
                raise ApiError("The form has more than one file.", code="invalid_value", param="file")
            name_alone = _decode(options[b"filename"]).replace("\\", "/").rpartition("/")[2]
            self.filename = name_alone[:MOST_NAME] or "upload"
            return
        if name in self.fields:
            raise ApiError("The form has a field twice.", code="invalid_value", param=name[:64])
        if len(self.fields) >= MOST_FIELDS:
            raise _unreadable(f"it has more than {MOST_FIELDS} fields")
        self._name = name

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._name is None:
            self._content.append(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > MOST_FIELD_BYTES:
            raise _unreadable(f"a field has more than {MOST_FIELD_BYTES} bytes")

    def _end_part(self) -> None:
        if self._name is not None:
            self.fields[self._name] = _decode(self._text)

    def _end(self) -> None:
        self.ended = True


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise _unreadable("a text in it is not UTF-8") from None


def _unreadable(why: str) -> ApiError:
    return ApiError(f"The form cannot be read: {why}.", code="invalid_form")


def _unknown(name: str) -> dict[str, Any]:
    return {"code": "unknown_parameter", "param": name[:64]}
