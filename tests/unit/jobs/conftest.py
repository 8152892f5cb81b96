"""Fixtures that tests of jobs share with the server's."""

from __future__ import annotations

from tests.server.conftest import connect

__all__ = ["connect"]
