"""Servers with a folder for files, and openai clients of them over both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import openai
import pytest

from tests.server.live import LiveServer

Clients = Callable[..., openai.OpenAI]


@pytest.fixture(params=["h1", "h2c"])
def protocol(request: pytest.FixtureRequest) -> str:
    """By which clients talk to their server."""
    return request.param


@pytest.fixture
def client_of(protocol: str) -> Iterator[Clients]:
    """client_of(server) is an openai client of a server."""
    with ExitStack() as stack:

        def make(server: LiveServer, **options: Any) -> openai.OpenAI:
            http = httpx.Client(http1=protocol == "h1", http2=protocol == "h2c", timeout=20)
            options = {"api_key": "key", "max_retries": 0} | options
            return stack.enter_context(openai.OpenAI(base_url=f"{server.url}/v1", http_client=http, **options))

        yield make
