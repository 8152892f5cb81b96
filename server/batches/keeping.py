"""What the routes of files and batches share."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from starlette.types import ASGIApp

from andes_jax.jobs.client import HttpClient
from andes_jax.jobs.waiting import Patience
from server.batches.places import places_at
from server.batches.runner import BatchRunner
from server.batches.shared import SharedStore
from server.batches.uploads import Uploads
from server.context import ServerContext
from server.errors import ApiError, quoted

logger = logging.getLogger("andes_jax.server")


class Keeping:
    """Files and batches of one application, and the work on them while it serves."""

    def __init__(self, context: ServerContext, app: ASGIApp) -> None:
        """`app` answers the batches' calls, as those of a client that needs no key."""
        self._folder = context.settings.data_dir
        self.uploads = Uploads(context.settings)
        self._store = None if self._folder is None else SharedStore(self._folder)
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://batches", timeout=None)
        client = HttpClient(self._http, patience=lambda: Patience(math.inf))
        client.native = True
        self._runner = None
        if self._store is not None:
            self._runner = BatchRunner(self._store, client, context.model_id, places_at(context.engine.limits))
        self._working: asyncio.Task[None] | None = None

    @property
    def store(self) -> SharedStore:
        """Where they are kept. Raises ApiError (501) when the server keeps none."""
        if self._store is None:
            raise ApiError("This server keeps no files.", status=501, code="no_files")
        return self._store

    @property
    def runner(self) -> BatchRunner:
        """Who works on batches. Raises ApiError (501) when nobody does."""
        if self._runner is None:
            raise ApiError("This server keeps no files.", status=501, code="no_files")
        return self._runner

    def start(self) -> None:
        """Work on batches from now on."""
        if self._runner is not None:
            self._working = asyncio.create_task(self._runner.run())

    async def stop(self) -> None:
        """Leave batches that are unfinished to the next process; calls about files go on. Idempotent."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])
            self._working = None

    async def close(self) -> None:
        """Stop, and give back what is held."""
        await self.stop()
        await self._http.aclose()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Make what goes wrong with the folder an ApiError (507 when it is full, else 500)."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
            full = full or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            logger.warning("files cannot be kept in %s: %s", self._folder, error)
            if full:
                raise ApiError("The server's disk is full.", status=507, code="disk_full") from None
            raise ApiError("The server cannot use its files.", status=500, code="files_unavailable") from None


def not_found(what: str, name: str, param: str | None = None) -> ApiError:
    """The reply to a call about something that is not there."""
    return ApiError(f"No such {what}: {quoted(name, 100)}.", status=404, code="not_found", param=param or "id")
