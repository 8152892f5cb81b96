"""Where a conversation ends that the reply continues."""

from __future__ import annotations

import pytest

from andes_jax.text.chat import ChatTemplate
from server.errors import ApiError
from server.rendering import Renderer
from server.schemas.chat import ChatBody
from tests.server.parts import mk_context

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
START = "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def continued():
    context = mk_context()
    context.engine.stop(0)

    def render(content: str, source: str = CHATML) -> str:
        object.__setattr__(context, "chat_template", ChatTemplate(source, "", ""))
        turns = [{"role": "user", "content": "Say hi"}, {"role": "assistant", "content": content}]
        messages = ChatBody.parse({"messages": turns}).messages
        return Renderer(context).continued(messages, add_generation_prompt=False)

    return render


@pytest.mark.parametrize(
    "content", ["end", "im", "<|im_end|>", "|>", "\n", "e", "Say hi", "assistant", "ends here ", "x\n\n"]
)
def test_the_end_of_the_content_and_not_of_text_like_it(continued, content):
    if content.strip():
        assert continued(content) == START + content.rstrip()
    else:
        with pytest.raises(ApiError, match="cannot be continued"):
            continued(content)


def test_a_template_that_does_not_show_the_content(continued):
    with pytest.raises(ApiError, match="does not show its content"):
        continued("end", "{% for message in messages %}<end>{{ message.role }}{% endfor %}")
