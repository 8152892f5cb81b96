"""/v1/files: what batches read and write. Everyone with a key sees all files."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from server.batches.keeping import Keeping, not_found
from server.batches.objects import StoredFile
from server.batches.store import Store
from server.errors import ApiError, quoted
from server.routes.paging import known, listed, page_of
from server.schemas.batches import ExpiresAfter
from server.services import Services

PURPOSE = "batch"
MOST_FILES = 10_000  # of one listing


class FileRoutes:
    """Files that are uploaded, listed, read and deleted."""

    def __init__(self, services: Services, keeping: Keeping) -> None:
        self._services = services
        self._keeping = keeping

    async def create(self, request: Request) -> Response:
        """POST /v1/files: a form with `file` and `purpose`."""
        store = self._keeping.store
        name = f"file-{uuid.uuid4().hex}"
        draft = store.folder / f"{name}.draft"
        with self._keeping.faults():
            await store(Store.file, name)  # or its folder may not be there yet
            try:
                upload = await self._keeping.uploads.take(request.scope, request.receive, draft)
                kept_s = _expiry(upload.fields)
                now = int(time.time())
                expires_at = None if kept_s is None else now + kept_s
                file = StoredFile(name, upload.filename, upload.bytes, PURPOSE, now, expires_at)
                await store(Store.add_file, file, draft)
            finally:
                draft.unlink(missing_ok=True)
        return JSONResponse(file.shown())

    async def listing(self, request: Request) -> Response:
        """GET /v1/files."""
        page = page_of(request, most=MOST_FILES, usual=MOST_FILES)
        purpose = request.query_params.get("purpose")
        with self._keeping.faults(), known(page):
            found = await self._keeping.store(
                Store.files, after=page.after, limit=page.limit + 1, newest_first=page.newest_first, purpose=purpose
            )
        return listed([file.shown() for file in found], page)

    async def one(self, request: Request) -> Response:
        """GET /v1/files/{file_id}."""
        return JSONResponse((await self._file(request)).shown())

    async def content(self, request: Request) -> Response:
        """GET /v1/files/{file_id}/content."""
        file = await self._file(request)
        path = Path(self._keeping.store.folder, "contents", file.id)
        if not path.is_file():
            raise not_found("file", file.id)  # it was deleted meanwhile
        return FileResponse(path, media_type="application/octet-stream", filename=file.filename)

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/files/{file_id}."""
        file = await self._file(request)
        with self._keeping.faults():
            user = await self._keeping.store(Store.delete_file, file.id)
        if user is not None:
            message = f"The file is the input of {user}, which is not at its end; cancel that first."
            raise ApiError(message, status=409, code="file_in_use")
        return JSONResponse({"id": file.id, "object": "file", "deleted": True})

    async def _file(self, request: Request) -> StoredFile:
        file_id = request.path_params["file_id"]
        with self._keeping.faults():
            file = await self._keeping.store(Store.file, file_id)
        if file is None:
            raise not_found("file", file_id)
        return file


def _expiry(fields: dict[str, Any]) -> int | None:
    """Seconds after which the file is deleted; checks the form's other fields too. Raises ApiError."""
    given = dict(fields)
    purpose = given.pop("purpose", None)
    if purpose is None:
        raise ApiError("Missing required parameter: purpose.", code="missing_required_parameter", param="purpose")
    if purpose != PURPOSE:
        message = (
            f"Invalid value for 'purpose': this server keeps files for batches alone, with the purpose {PURPOSE!r}."
        )
        raise ApiError(message, code="invalid_value", param="purpose")
    anchor, seconds = given.pop("expires_after[anchor]", None), given.pop("expires_after[seconds]", None)
    if given:
        name = quoted(min(given))
        raise ApiError(
            f"Unrecognized request argument supplied: {name}.", code="unknown_parameter", param=min(given)[:64]
        )
    if anchor is None and seconds is None:
        return None
    if seconds is None or not seconds.isdecimal() or len(seconds) > 9:
        raise ApiError(
            "Invalid value for 'expires_after[seconds]': must be a whole number.",
            code="invalid_value",
            param="expires_after[seconds]",
        )
    return ExpiresAfter.parse({"anchor": anchor, "seconds": int(seconds)}).seconds
