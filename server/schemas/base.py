"""What every body has in common: strict types, no unknown names, and errors that name the parameter."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from server.errors import ApiError, quoted


class Body(BaseModel):
    """A request body or a part of one. A null is the same as a name left out."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, protected_namespaces=())

    ignored: ClassVar[frozenset[str]] = frozenset()  # names that may come and change nothing
    refused: ClassVar[dict[str, str]] = {}  # names that are known but not served, and what to say

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Validate a JSON object; raises ApiError (400) for the first fault found."""
        given = {name: value for name, value in body.items() if value is not None and name not in cls.ignored}
        for name, why in cls.refused.items():
            if name in given:
                raise ApiError(why, code="unsupported_parameter", param=name)
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise _api_error(error.errors(include_url=False, include_input=False)[0]) from None


def fault(message: str, param: str | None = None) -> PydanticCustomError:
    """For validators to raise: the message reaches the caller as it is, with the parameter if it is not the field."""
    return PydanticCustomError("fault", "{message}", {"message": message, "param": param})


def _api_error(detail: ErrorDetails) -> ApiError:
    path = detail.get("ctx", {}).get("param") or _path(detail["loc"])
    if detail["type"] == "extra_forbidden":
        return ApiError(
            f"Unrecognized request argument supplied: {path}.", code="unknown_parameter", param=path or None
        )
    if detail["type"] == "missing":
        return ApiError(f"Missing required parameter: {path}.", code="missing_required_parameter", param=path or None)
    where = f"Invalid value for '{path}': " if path else ""
    return ApiError(f"{where}{_message(detail).rstrip('.')}.", code="invalid_value", param=path or None)


def _message(detail: ErrorDetails) -> str:
    """What is wrong, in JSON's words rather than Python's."""
    context = detail.get("ctx", {})
    match detail["type"]:
        case "fault":
            return detail["msg"]
        case "too_short":
            return f"must have at least {_items(context['min_length'])}"
        case "too_long":
            return f"must have at most {_items(context['max_length'])}, not {context['actual_length'] or 'more'}"
        case "tuple_type" | "list_type":
            return "must be an array"
        case "dict_type" | "model_type":
            return "must be an object"
    return detail["msg"][:1].lower() + detail["msg"][1:]


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _path(location: tuple[int | str, ...]) -> str:
    """Such as messages[0].content."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step if step.isidentifier() and len(step) <= 64 else quoted(step)
            path += f".{name}" if path else name
    return path
