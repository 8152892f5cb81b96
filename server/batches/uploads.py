"""Uploads: forms with a file, taken off the connection piece by piece and kept on the disk, never whole in memory."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import python_multipart  # noqa: F401 - Starlette's parser needs it
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from server.context import ServerSettings
from server.errors import ApiError

MOST_AT_ONCE = 8
MOST_FIELDS = 16


@dataclass(frozen=True, slots=True)
class Upload:
    """A form whose file is in a temporary file."""

    fields: dict[str, str]
    file: UploadFile

    @property
    def filename(self) -> str:
        """As the client calls it, without folders."""
        return (self.file.filename or "").replace("\\", "/").rpartition("/")[2][:255] or "upload"

    def save(self, path: Path) -> int:
        """Write the file to a path; how many bytes. Raises OSError."""
        try:
            self.file.file.seek(0)
            with open(path, "wb") as target:
                shutil.copyfileobj(self.file.file, target, 1024 * 1024)
                return target.tell()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


class Uploads:
    """Takes uploads for one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._at_once = 0

    async def take(self, scope: Scope, receive: Receive) -> Upload:
        """The form of a call. Whoever takes it closes its file.

        Raises ApiError (400, 408, 413, 415, 503), or ClientDisconnect when the client left.
        """
        headers = Headers(scope=scope)
        if headers.get("content-type", "").split(";")[0].strip().lower() != "multipart/form-data":
            message = "The request body must be a form, sent with the header 'Content-Type: multipart/form-data'."
            raise ApiError(message, status=415, code="unsupported_media_type")
        if self._at_once >= MOST_AT_ONCE:
            raise ApiError("Too many files are being uploaded.", status=503, code="engine_overloaded")
        self._at_once += 1
        try:
            parser = MultiPartParser(headers, self._pieces(receive), max_files=1, max_fields=MOST_FIELDS)
            form = await parser.parse()
        except MultiPartException as error:
            raise ApiError(f"The form cannot be read: {error.message.rstrip('.')}.", code="invalid_form") from None
        finally:
            self._at_once -= 1
        fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        file = form.get("file")
        if not isinstance(file, UploadFile):
            await form.close()
            raise ApiError("Missing required parameter: file.", code="missing_required_parameter", param="file")
        return Upload(fields, file)

    async def _pieces(self, receive: Receive) -> AsyncGenerator[bytes]:
        limit, taken = self._settings.max_file_bytes, 0
        while True:
            try:
                async with asyncio.timeout(self._settings.body_timeout_s):
                    message = await receive()
            except TimeoutError:
                words = f"Nothing of the file arrived for {self._settings.body_timeout_s:g} s."
                raise ApiError(words, status=408, code="body_timeout") from None
            if message["type"] == "http.disconnect":
                raise ClientDisconnect()
            piece = message.get("body", b"")
            taken += len(piece)
            if taken > limit:
                raise ApiError(f"The file is larger than {limit} bytes.", status=413, code="body_too_large")
            yield piece
            if not message.get("more_body", False):
                return
