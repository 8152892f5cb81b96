"""Every way a call can go wrong, as OpenAI error objects with their status."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.responses import Response

from andes_jax.request import Refusal

RETRY_AFTER_S = 1  # what an overloaded server asks for

_REFUSAL_STATUS = {"engine_overloaded": 503, "shutting_down": 503, "engine_failed": 503, "engine_not_ready": 503}


class ApiError(Exception):
    """A reply other than success. `message` must be safe to show: it never holds more than a short piece of input."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})
        if status == 503:
            self.headers.setdefault("retry-after", str(RETRY_AFTER_S))

    @property
    def type(self) -> str:
        """OpenAI's word for the kind of error."""
        if self.status == 503:
            return "overloaded_error"
        return "api_error" if self.status >= 500 else "invalid_request_error"

    @classmethod
    def from_refusal(cls, refusal: Refusal) -> ApiError:
        """The reply to a request that the engine did not take."""
        status = _REFUSAL_STATUS.get(refusal.code, 400)
        return cls(refusal.message, status=status, code=refusal.code, param=refusal.param)

    def body(self) -> bytes:
        """The error object as JSON."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return orjson.dumps({"error": error})

    def response(self) -> Response:
        """The error as a whole reply."""
        return Response(self.body(), self.status, self.headers, media_type="application/json")


def shutting_down() -> ApiError:
    """The reply to calls that come while the server drains."""
    return ApiError("The server is shutting down.", status=503, code="shutting_down")


def internal_error() -> ApiError:
    """The reply to a fault of ours; what it was is in the log alone."""
    return ApiError("The server had an error while processing your request.", status=500, code="internal_error")


def quoted(text: str, limit: int = 64) -> str:
    """A short, printable form of text that came from outside."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return repr("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut))
