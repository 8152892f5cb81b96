"""Forms as clients send them, byte by byte."""

from __future__ import annotations

BOUNDARY = b"a-boundary"
KIND = f"multipart/form-data; boundary={BOUNDARY.decode()}"


def field(name: str, value: str) -> bytes:
    """A part that is a field."""
    return b'Content-Disposition: form-data; name="%b"\r\n\r\n%b' % (name.encode(), value.encode())


def file(content: bytes, filename: str = "a.jsonl", part: str = "file") -> bytes:
    """A part that is a file."""
    names = part.encode(), filename.encode()
    return b'Content-Disposition: form-data; name="%b"; filename="%b"\r\nContent-Type: x/y\r\n\r\n' % names + content


def form(*parts: bytes) -> bytes:
    """A whole form."""
    return b"".join(b"--%b\r\n%b\r\n" % (BOUNDARY, part) for part in parts) + b"--%b--\r\n" % BOUNDARY


def upload(content: bytes, filename: str = "a.jsonl") -> bytes:
    """The form of a batch's file."""
    return form(field("purpose", "batch"), file(content, filename))
