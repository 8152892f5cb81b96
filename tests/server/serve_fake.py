"""Serves the fake engine in a process of its own: python -m tests.server.serve_fake '{"gap_s": 0.01, ...}'."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from server.serve import serve
from tests.server.parts import mk_context


def main() -> int:
    settings = json.loads(sys.argv[1])
    if "unix_socket" in settings:
        settings["unix_socket"] = Path(settings["unix_socket"])
    return serve(mk_context(**settings))


if __name__ == "__main__":
    sys.exit(main())
