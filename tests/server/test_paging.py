"""Which part of a list a query asks for, and the list object."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request

from server.errors import ApiError
from server.routes.paging import Page, known, listed, page_of


def asked(query: str) -> Page:
    return page_of(Request({"type": "http", "query_string": query.encode(), "headers": []}), most=100, usual=20)


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("", Page(None, 20, True)),
        ("limit=100&after=x&order=asc", Page("x", 100, False)),
        ("after=&limit=001&order=desc", Page(None, 1, True)),
    ],
)
def test_queries(query, page):
    assert asked(query) == page


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=" + "9" * 5000])
def test_limits_out_of_bounds(query):
    with pytest.raises(ApiError) as raised:
        asked(query)
    assert raised.value.param == "limit"


def test_a_list_says_whether_it_goes_on():
    def shown(count: int) -> dict:
        return json.loads(listed([{"id": f"{number}"} for number in range(count)], Page(None, 2, True)).body)

    assert shown(0) == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert (shown(2)["last_id"], shown(2)["has_more"]) == ("1", False)
    assert (shown(3)["last_id"], shown(3)["has_more"]) == ("1", True) and len(shown(3)["data"]) == 2


def test_a_page_after_nothing_is_an_error():
    with pytest.raises(ApiError) as raised, known(Page("x", 1, True)):
        raise KeyError("x")
    assert (raised.value.status, raised.value.param) == (404, "after")
