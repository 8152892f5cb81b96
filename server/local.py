"""The engine in this process as a server without sockets: the very application that is served, called directly.

So a job's calls are checked, rendered and answered as the server's are, to the byte.
"""

from __future__ import annotations

import httpx

from server.app import create_app
from server.context import ServerContext


def engine_http(context: ServerContext) -> httpx.AsyncClient:
    """Calls to the context's engine; belongs to the event loop of its first call."""
    transport = httpx.ASGITransport(create_app(context))
    return httpx.AsyncClient(base_url="http://engine", transport=transport, timeout=None)
