"""andes_jax.commands.generate with andes_jax.commands.progress, over an engine that says what it is told to."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import andes_jax.build
from andes_jax.cli import app
from andes_jax.commands.failure import CommandError
from andes_jax.commands.generate import stream_reply
from andes_jax.commands.progress import progress_line
from andes_jax.events import TokenEvent
from andes_jax.request import FinishReason, Request, SamplingParams, Tier


class FakeEngine:
    """Sends texts one by one from a thread of its own, until it is told to stop."""

    limits = SimpleNamespace(max_model_len=100, pool_tokens=1000)

    def __init__(self, texts: list[str], finish: FinishReason = FinishReason.STOP, message: str | None = None) -> None:
        self.texts, self.finish, self.message = texts, finish, message
        self.cancelled = threading.Event()
        self.requests: list[Request] = []
        self.stopped = False

    def submit(self, request, sink):
        self.requests.append(request)

        def send():
            for text in self.texts:
                sink([TokenEvent(request.id, 0.0, text=text)])
            if self.finish is FinishReason.CANCELLED:
                self.cancelled.wait(20)
            sink([TokenEvent(request.id, 0.0, text="!", finish=self.finish, message=self.message)])

        threading.Thread(target=send).start()

    def cancel(self, request_id):
        self.cancelled.set()

    def stop(self, timeout_s):
        self.stopped = True


REQUEST = Request(id="generate", prompt_ids=(1,), sampling=SamplingParams(max_tokens=3))


def test_a_reply_is_written_as_it_comes():
    written: list[str] = []
    last = stream_reply(FakeEngine(["a", "", "b"]), REQUEST, written.append)
    assert (written, last.finish) == (["a", "", "b", "!"], FinishReason.STOP)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, BrokenPipeError])
def test_an_interrupted_reply_is_cancelled_and_waited_for(interruption):
    engine, written = FakeEngine(["a", "b"], FinishReason.CANCELLED), []

    def write(text):
        written.append(text)
        raise interruption

    with pytest.raises(interruption):
        stream_reply(engine, REQUEST, write)
    assert engine.cancelled.is_set() and written == ["a"]


def test_an_interruption_loses_nothing_of_what_came_at_once():
    """The end came together with the text on which the reader left."""

    class AtOnce(FakeEngine):
        def submit(self, request, sink):
            sink(
                [TokenEvent("generate", 0.0, text=text) for text in "ab"]
                + [TokenEvent("generate", 0.0, finish=self.finish)]
            )

    def write(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream_reply(AtOnce([]), REQUEST, write)


class Words:
    """A tokenizer of one token per word, and a chat template that names the roles."""

    eos_ids = (7,)

    def encode(self, text, *, add_special, parse_special=True):
        return [1] * add_special + [len(word) for word in text.split()]

    def render(self, messages, *, add_generation_prompt=True):
        return " ".join(f"{message['role']} {message['content']}" for message in messages)


@pytest.fixture
def generate(monkeypatch):
    """Run the command over an engine; returns what it printed and how it ended."""

    def run(engine, *arguments, template=True, **kwargs):
        words = Words()
        built = SimpleNamespace(engine=engine, tokenizer=words, chat_template=words if template else None)
        monkeypatch.setattr(andes_jax.build, "build_engine", lambda config, progress: built)
        return CliRunner().invoke(app, ["generate", *arguments], **kwargs)

    return run


def test_the_reply_and_nothing_else_is_on_standard_output(generate):
    engine = FakeEngine(["Hel", "lo"])
    result = generate(engine, "Say hello", "--temperature", "0", "--seed", "5", "--stop", "a", "--stop", "b")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello!\n", "")
    (request,) = engine.requests
    assert request.prompt_ids == (4, 3, 5)  # user Say hello
    assert (request.stop, request.tier, request.sampling.stop_ids) == (("a", "b"), Tier.REALTIME, (7,))
    assert (request.sampling.temperature, request.sampling.seed) == (0, 5)
    assert engine.stopped


def test_system_raw_and_standard_input(generate):
    engine = FakeEngine([])
    generate(engine, "Hi", "--system", "Be brief")
    generate(engine, "one two", "--raw")
    generate(engine, "-", "--raw", input="three")
    prompts = [request.prompt_ids for request in engine.requests]
    assert prompts == [(6, 2, 5, 4, 2), (1, 3, 3), (1, 5)]


def test_a_reply_fits_the_models_length(generate):
    engine = FakeEngine([], FinishReason.LENGTH)
    result = generate(engine, "one two", "--raw", "--max-tokens", "1000")
    assert engine.requests[0].sampling.max_tokens == 97
    engine.limits = SimpleNamespace(max_model_len=100, pool_tokens=64)
    generate(engine, "one two", "--raw", "--max-tokens", "1000")
    assert engine.requests[1].sampling.max_tokens == 61, "what the cache holds is the limit too"
    assert "--max-tokens" in result.stderr and result.exit_code == 0


def test_failures_are_told(generate):
    failed = generate(FakeEngine([], FinishReason.FAILED, "the step failed"), "x")
    assert isinstance(failed.exception, CommandError) and "the step failed" in str(failed.exception)
    assert "--raw" in str(generate(FakeEngine([]), "x", template=False).exception)


def test_progress_is_for_eyes_and_logs(capsys):
    with progress_line() as progress:
        progress("loading")
    assert capsys.readouterr() == ("", "loading\n")
    with progress_line(quiet_in_logs=True) as progress:
        progress("loading")
    assert capsys.readouterr() == ("", "")
