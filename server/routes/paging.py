"""Lists that come in pages, as OpenAI's do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from server.errors import ApiError, quoted


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted."""

    after: str | None  # id of the last one before it
    limit: int
    newest_first: bool


def page_of(request: Request, *, most: int, usual: int) -> Page:
    """The part that the query asks for; raises ApiError."""
    query = request.query_params
    limit = query.get("limit", str(usual))
    if not limit.isdecimal() or len(limit) > 9 or not 1 <= int(limit) <= most:
        message = f"Invalid value for 'limit': must be a whole number from 1 to {most}."
        raise ApiError(message, code="invalid_value", param="limit")
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise ApiError("Invalid value for 'order': must be 'asc' or 'desc'.", code="invalid_value", param="order")
    return Page(query.get("after") or None, int(limit), order == "desc")


@contextmanager
def known(page: Page) -> Iterator[None]:
    """Make the store's KeyError, that what the page comes after is not there, an ApiError: an empty page would lie."""
    try:
        yield
    except KeyError:
        raise ApiError(
            f"There is no {quoted(page.after or '')}.", status=404, code="not_found", param="after"
        ) from None


def listed(found: list[dict[str, Any]], page: Page) -> Response:
    """The list object; `found` has one more than the page's limit where the list goes on."""
    data = found[: page.limit]
    return JSONResponse(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": len(found) > page.limit,
        }
    )
