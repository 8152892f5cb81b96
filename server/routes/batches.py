"""/v1/batches: many calls from one file, answered when nobody else needs the machine."""

from __future__ import annotations

import time
import uuid

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.batches.keeping import Keeping, not_found
from server.batches.objects import Batch
from server.batches.store import Store
from server.errors import ApiError
from server.routes.paging import known, listed, page_of
from server.schemas.batches import WINDOW_S, BatchBody
from server.services import Services

MOST_BATCHES, USUAL_BATCHES = 100, 20  # of one listing


class BatchRoutes:
    """Batches that are created, listed, looked at and cancelled."""

    def __init__(self, services: Services, keeping: Keeping) -> None:
        self._services = services
        self._keeping = keeping

    async def create(self, request: Request) -> Response:
        """POST /v1/batches."""
        body = BatchBody.parse(await self._services.bodies.read_json_object(request.scope, request.receive))
        now = int(time.time())
        batch = Batch(
            id=f"batch_{uuid.uuid4().hex}",
            model=self._services.context.model_id,
            endpoint=body.endpoint,
            input_file_id=body.input_file_id,
            completion_window=body.completion_window,
            created_at=now,
            expires_at=now + WINDOW_S[body.completion_window],
            metadata=body.metadata,
            output_seconds=None if body.output_expires_after is None else body.output_expires_after.seconds,
        )
        with self._keeping.faults():
            if not await self._keeping.store(Store.add_batch, batch):
                raise not_found("file", body.input_file_id, param="input_file_id")
        self._keeping.runner.look()
        return JSONResponse(batch.shown())

    async def listing(self, request: Request) -> Response:
        """GET /v1/batches."""
        page = page_of(request, most=MOST_BATCHES, usual=USUAL_BATCHES)
        with self._keeping.faults(), known(page):
            found = await self._keeping.store(Store.batches, after=page.after, limit=page.limit + 1)
        return listed([batch.shown() for batch in found], page)

    async def one(self, request: Request) -> Response:
        """GET /v1/batches/{batch_id}."""
        batch_id = request.path_params["batch_id"]
        with self._keeping.faults():
            batch = await self._keeping.store(Store.batch, batch_id)
        if batch is None:
            raise not_found("batch", batch_id)
        return JSONResponse(batch.shown())

    async def cancel(self, request: Request) -> Response:
        """POST /v1/batches/{batch_id}/cancel."""
        batch_id = request.path_params["batch_id"]
        now = int(time.time())

        def change(batch: Batch) -> Batch:
            if batch.status in ("validating", "in_progress"):
                return batch.become("cancelling", now)
            if batch.status == "cancelling":
                return batch
            message = f"The batch is {batch.status.replace('_', ' ')}, and cannot be cancelled any more."
            raise ApiError(message, status=409, code="invalid_state")

        with self._keeping.faults():
            try:
                batch = await self._keeping.store(Store.change_batch, batch_id, change)
            except KeyError:
                raise not_found("batch", batch_id) from None
        self._keeping.runner.look()
        return JSONResponse(batch.shown())
