"""Chat templates as Hugging Face renders them, and every way in which one can fail."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from andes_jax.text.chat import ChatTemplate, TemplateError
from andes_jax.text.tokenizer import Tokenizer

USER = [{"role": "user", "content": "Hi"}]


def render(source: str, messages: list[dict[str, Any]] | None = None, **variables: Any) -> str:
    template = ChatTemplate(source, "<s>", "</s>", largest_characters=100_000)
    return template.render(USER if messages is None else messages, **variables)


def test_smollm2_prompt(smollm2: Tokenizer, smollm2_metadata: dict[str, Any]) -> None:
    template = ChatTemplate(smollm2_metadata["tokenizer.chat_template"], "<|im_start|>", "<|im_end|>")
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    prompt = template.render(USER)
    assert prompt == system + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert template.render(USER, add_generation_prompt=False) == system + "<|im_start|>user\nHi<|im_end|>\n"
    ids = smollm2.encode(prompt, add_special=False)
    assert ids.count(1) == 3 and ids.count(2) == 2
    assert template.render([{"role": "system", "content": "Be brief."}, *USER]).startswith(
        "<|im_start|>system\nBe brief.<|im_end|>\n"
    )


def test_blocks_leave_no_lines_of_their_own() -> None:
    source = "{% for m in messages %}\n    {% if m.role %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\nend"
    assert render(source) == "Hi\nend"


def test_tokens_and_variables_reach_the_template() -> None:
    assert render("{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}") == "<s>Hi</s>"
    assert render("{{ tools | length }} {{ enable_thinking }}", tools=[1, 2], enable_thinking=False) == "2 False"
    assert render("{% if documents is defined %}x{% endif %}") == ""
    assert render("{{ bos_token }}", bos_token="other") == "other"


def test_json_is_plain_and_keeps_its_order() -> None:
    value = {"b": "<é> & 'x'", "a": [1, None, True]}
    assert render("{{ v | tojson }}", v=value) == '{"b": "<é> & \'x\'", "a": [1, null, true]}'
    assert render("{{ v | tojson(indent=1) }}", v={"a": 1}) == '{\n "a": 1\n}'
    assert render("{{ v | tojson(separators=(',', ':'), sort_keys=true) }}", v={"b": 1, "a": 2}) == '{"a":2,"b":1}'


def test_loop_controls_and_generation_blocks() -> None:
    assert render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert render("{% for m in messages %}{% generation %}{{ m.content }}!{% endgeneration %}{% endfor %}") == "Hi!"


def test_the_date_is_that_of_the_given_calendar() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", "", "", now=lambda: datetime(2024, 7, 26))
    assert template.render(USER) == "26 Jul 2024"
    assert str(datetime.now().year) in render("{{ strftime_now('%Y') }}")


def test_a_refusal_is_in_the_templates_own_words() -> None:
    source = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    source += "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}{% endfor %}"
    assert render(source) == ""
    with pytest.raises(TemplateError) as raised:
        render(source, USER * 2)
    assert str(raised.value) == "Conversation roles must alternate user/assistant/..."
    with pytest.raises(TemplateError, match="refuses these messages"):
        render("{{ raise_exception('') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.text.more }}",
        "{{ messages[7]['content'] }}",
        "{{ messages[0]['content'] + 1 }}",
        "{{ nothing() }}",
        "{{ 1 // 0 }}",
        "{{ undefined | tojson }}",
        "{{ messages[0].update(role='system') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'other' %}",
        "{{ 2 ** 100000000 }}",
        "{{ 'x' * 100000000 }}",
        "{{ 100000000 * [1] }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}a{% endfor %}{% endfor %}",
    ],
)
def test_whatever_fails_is_a_template_error(source: str) -> None:
    with pytest.raises(TemplateError):
        render(source)


def test_products_within_bounds_are_fine() -> None:
    assert render("{{ 'ab' * 3 }} {{ 6 * 7 }} {{ 2 ** 10 }} {{ 2 * 'x' }} {{ 1.5 * 2 }}") == "ababab 42 1024 xx 3.0"


def test_the_output_is_bounded_to_the_character() -> None:
    template = ChatTemplate("{{ messages[0].content }}", "", "", largest_characters=10)
    assert template.render([{"content": "x" * 10}]) == "x" * 10
    with pytest.raises(TemplateError, match="more than 10 characters"):
        template.render([{"content": "x" * 11}])


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ x", "{% for m in messages %}", "{% nonsense %}", "{{ x | nofilter }}"]
)
def test_bad_syntax_is_found_before_the_first_message(source: str) -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        ChatTemplate(source, "", "")


def test_messages_stay_as_they_were() -> None:
    messages = [{"role": "user", "content": "Hi", "tags": ["a"]}]
    with pytest.raises(TemplateError):
        render("{{ messages[0].tags.append('b') }}", messages)
    assert messages == [{"role": "user", "content": "Hi", "tags": ["a"]}]


def test_user_text_is_never_template_text() -> None:
    assert (
        render("{{ messages[0].content }}", [{"content": "{{ 7 * 7 }}{% raise %}<b>"}]) == "{{ 7 * 7 }}{% raise %}<b>"
    )
