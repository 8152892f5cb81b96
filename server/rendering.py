"""Conversations as the model reads them, whole or up to a last message that the reply goes on with."""

from __future__ import annotations

import secrets
from typing import Any

from andes_jax.text.chat import TemplateError
from server.context import ServerContext
from server.errors import ApiError
from server.schemas.chat import Message


class Renderer:
    """Renders by the model's chat template. Threads may share it."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def whole(self, messages: tuple[Message, ...], *, add_generation_prompt: bool, **variables: object) -> str:
        """The conversation; raises ApiError (400) with the template's own words."""
        shown = [message.for_template() for message in messages]
        return self._render(shown, add_generation_prompt, variables)

    def continued(self, messages: tuple[Message, ...], *, add_generation_prompt: bool, **variables: object) -> str:
        """The conversation up to the end of its last message's content; raises ApiError (400).

        Space that ends the content is left out, as the reply's first token brings its own.
        """
        shown = [message.for_template() for message in messages]
        content = shown[-1]["content"]
        if not content.strip():
            raise _not_shown()
        # Content can occur in the template's own text as well, so its end is found by a mark that nothing else has.
        mark = secrets.token_hex(16)
        shown[-1]["content"] = content + mark
        text = self._render(shown, add_generation_prompt, variables)
        at = text.rfind(mark)
        if at < 0:
            raise _not_shown()
        return text[:at].rstrip()

    def _render(self, shown: list[dict[str, Any]], add_generation_prompt: bool, variables: dict[str, object]) -> str:
        template = self._context.chat_template
        if template is None:
            raise ApiError(
                "This model has no chat template: use /v1/completions.", code="no_chat_template", param="messages"
            )
        given = {**self._context.template_variables, **variables}
        try:
            return template.render(shown, add_generation_prompt=add_generation_prompt, **given)
        except TemplateError as error:
            raise ApiError(str(error), code="invalid_messages", param="messages") from None


def _not_shown() -> ApiError:
    return ApiError(
        "The final message cannot be continued: the chat template does not show its content.",
        code="invalid_messages",
        param="continue_final_message",
    )
