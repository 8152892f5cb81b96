"""A model of words for tests of summaries: a token is a word, a Chinese character or a mark."""

from __future__ import annotations

import json
import re

from andes_jax.jobs.client import Reply


def words(text: str) -> list[str]:
    return re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+|[^\w\s]", text)


async def count(text: str) -> int:
    return len(words(text))


class WordModel:
    """Answers every chat with the first words of its text, and counts tokens. `context` is checked."""

    def __init__(self, context: int = 400, said: str | None = None, status: int = 200, finish: str = "stop") -> None:
        self.context = context
        self.said = said
        self.status = status
        self.finish = finish
        self.asked: list[dict] = []
        self.longest = 0

    async def post(self, path, body):
        if path == "/tokenize":
            text = body.get("prompt") or "".join(each["content"] for each in body.get("messages", []))
            return Reply(200, {"count": len(words(text))}, "")
        self.asked.append(json.loads(json.dumps(body)))
        prompt = sum(len(words(each["content"])) for each in body["messages"])
        self.longest = max(self.longest, prompt + body["max_tokens"])
        assert prompt + body["max_tokens"] <= self.context, "the context is exceeded"
        if self.status != 200:
            return Reply(self.status, {"error": {"message": "no", "code": "refused"}}, "")
        text = body["messages"][-1]["content"]
        said = " ".join(words(text)[: body["max_tokens"]]) if self.said is None else self.said
        choice = {"message": {"content": said}, "finish_reason": self.finish}
        usage = {"prompt_tokens": prompt, "completion_tokens": len(words(said))}
        return Reply(200, {"choices": [choice], "usage": usage}, "")

    @property
    def systems(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.asked]


def story(paragraphs: int, sentences: int = 4) -> str:
    """A text whose every sentence says where it is."""
    return "\n\n".join(
        " ".join(f"Sentence {each} of paragraph {number} is here." for each in range(sentences))
        for number in range(paragraphs)
    )
