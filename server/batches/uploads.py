"""Uploads: forms with a file, taken off the connection piece by piece and written to the disk as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from server.batches.form import Form
from server.context import ServerSettings
from server.errors import ApiError

MOST_AT_ONCE = 8
FORM_BYTES = 64 * 1024  # of a form, beside its file
SLOWEST_BYTES_S = 16 * 1024  # that a client has to send, or it would keep others out for hours


@dataclass(frozen=True, slots=True)
class Upload:
    """A form whose file is on the disk."""

    fields: dict[str, str]
    filename: str
    bytes: int


class Uploads:
    """Takes uploads for one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._at_once = 0

    async def take(self, scope: Scope, receive: Receive, draft: Path) -> Upload:
        """Write a call's file to `draft`, which the caller removes whatever happens.

        Raises ApiError (400, 408, 413, 415, 503), OSError, or ClientDisconnect when the client left.
        """
        headers = Headers(scope=scope)
        content_type = headers.get("content-type", "")
        if content_type.split(";")[0].strip().lower() != "multipart/form-data":
            message = "The request body must be a form, sent with the header 'Content-Type: multipart/form-data'."
            raise ApiError(message, status=415, code="unsupported_media_type")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 18 or int(announced) > self._most_bytes):
            raise self._too_large()
        if self._at_once >= MOST_AT_ONCE:
            raise ApiError("Too many files are being uploaded.", status=503, code="engine_overloaded")
        form = Form(content_type)
        self._at_once += 1
        try:
            size = await self._write(form, receive, draft)
        finally:
            self._at_once -= 1
        if not form.ended:
            raise ApiError("The form cannot be read: it has no end.", code="invalid_form")
        if form.filename is None:
            raise ApiError("Missing required parameter: file.", code="missing_required_parameter", param="file")
        return Upload(form.fields, form.filename, size)

    async def _write(self, form: Form, receive: Receive, draft: Path) -> int:
        size = 0
        with open(draft, "wb", buffering=0) as file:
            async for piece in self._pieces(receive):
                content = memoryview(form.feed(piece))
                size += len(content)
                if size > self._settings.max_file_bytes:
                    raise self._too_large()
                while content:
                    content = content[await asyncio.to_thread(file.write, content) :]
        return size

    async def _pieces(self, receive: Receive) -> AsyncIterator[bytes]:
        loop, patience_s = asyncio.get_running_loop(), self._settings.body_timeout_s
        begun_s, taken = loop.time(), 0
        while True:
            until_s = min(loop.time(), begun_s + taken / SLOWEST_BYTES_S) + patience_s
            try:
                async with asyncio.timeout_at(until_s):
                    message = await receive()
            except TimeoutError:
                raise ApiError("The file came too slowly.", status=408, code="body_timeout") from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect()
            piece = message.get("body", b"")
            taken += len(piece)
            if taken > self._most_bytes:
                raise self._too_large()
            yield piece
            if not message.get("more_body", False):
                return

    @property
    def _most_bytes(self) -> int:
        return self._settings.max_file_bytes + FORM_BYTES

    def _too_large(self) -> ApiError:
        limit = self._settings.max_file_bytes
        return ApiError(f"The file is larger than {limit} bytes.", status=413, code="body_too_large")
