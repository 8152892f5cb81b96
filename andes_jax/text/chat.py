"""Renders a conversation into the prompt its model was trained on, by the model's own Jinja template."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from andes_jax.failure import UserError

DEFAULT_LARGEST_CHARACTERS = 8 << 20


class TemplateError(UserError, ValueError):
    """A conversation that cannot be rendered, in the template's own words where it has some."""


class _Raised(jinja2.TemplateError):
    """What the template itself refuses by raise_exception."""


class _GenerationTag(Extension):
    """Accepts {% generation %} blocks, which only training needs, and renders what they hold."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    """Hugging Face's environment for chat templates; products that would fill the memory are refused."""

    intercepted_binops = frozenset(("*", "**"))

    def __init__(self, largest_characters: int, now: Callable[[], datetime]) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
        self._largest = largest_characters
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: now().strftime(form)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and not (isinstance(right, (int, float)) and abs(right) <= 64):
            raise _Raised(f"the template raises a number to the power of {right!r}")
        for repeated, times in ((left, right), (right, left)):
            if operator == "*" and isinstance(repeated, Sequence) and isinstance(times, int):
                _check_size(len(repeated) * times, self._largest)
        return super().call_binop(context, operator, left, right)


def _check_size(characters: int, largest: int) -> None:
    if characters > largest:
        raise _Raised(f"the chat template makes more than {largest} characters")


def _raise_exception(message: object) -> NoReturn:
    raise _Raised(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: Jinja's own filter escapes for HTML, which models were not trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class ChatTemplate:
    """One model's chat template. Compiled once; rendering changes nothing, so threads may share it.

    It is trusted as far as the model's file is: it cannot reach outside its sandbox, and its output is bounded, but not
    its time.
    """

    def __init__(
        self,
        source: str,
        bos: str,
        eos: str,
        *,
        largest_characters: int = DEFAULT_LARGEST_CHARACTERS,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """`bos` and `eos` are the texts of those tokens, which templates write. Raises TemplateError for bad syntax."""
        self.source = source
        self._tokens = {"bos_token": bos, "eos_token": eos}
        self._largest = largest_characters
        try:
            self._template = _Environment(largest_characters, now).from_string(source)
        except Exception as error:  # a template is data from outside: whatever it breaks is its own fault
            raise TemplateError(f"the model's chat template does not compile: {_reason(error)}") from error

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt for a conversation: encode it without add_special, for templates write BOS themselves.

        `variables` go to the template (tools, documents, enable_thinking). Raises TemplateError whatever goes wrong.
        """
        context = self._tokens | variables | {"messages": messages, "add_generation_prompt": add_generation_prompt}
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(context):
                size += len(piece)
                _check_size(size, self._largest)
                pieces.append(piece)
        except _Raised as error:
            raise TemplateError(error.message or "the chat template refuses these messages") from error
        except Exception as error:  # templates index, call and convert what a caller sent: anything may come up
            raise TemplateError(f"the model's chat template fails on these messages: {_reason(error)}") from error
        return "".join(pieces)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
