"""andes-jax generate: one reply, streamed to the terminal by the engine that the server uses."""

from __future__ import annotations

import queue
import secrets
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from andes_jax.commands.failure import CommandError
from andes_jax.commands.options import takes_settings
from andes_jax.commands.progress import progress_line
from andes_jax.config import Config
from andes_jax.events import TokenEvent
from andes_jax.failure import UsageError
from andes_jax.request import FinishReason, Request, SamplingParams, Tier

if TYPE_CHECKING:
    from andes_jax.build import BuiltEngine
    from andes_jax.engine import Engine

_REQUEST_ID = "generate"


@takes_settings("model", "engine", model="option", variant="single")
def generate(
    config: Config,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to say to the model; - reads standard input.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply, in tokens.")] = 512,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0 always takes the likeliest token.")] = 0.7,
    top_p: Annotated[float, typer.Option(min=1e-6, max=1, help="Share of probability that is drawn from.")] = 1.0,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same reply.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given several times.")] = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue PROMPT as it is, without the chat template.")] = False,
) -> None:
    """Write one reply to PROMPT to the terminal as it is made. Ctrl-C ends it.

    Examples:

      andes-jax generate "Why is the sky blue?"
      andes-jax generate --model ./Qwen3-0.6B --temperature 0 --system "Answer in one line." "What is a mutex?"
      cat notes.txt | andes-jax generate -
    """
    if prompt == "-":
        prompt = sys.stdin.read()
    if not prompt:
        raise UsageError("the prompt is empty; give a text, or - and a text on standard input")
    if raw and system is not None:
        raise UsageError("--system needs the chat template, which --raw leaves out; give one of them")
    from andes_jax.build import build_engine

    with progress_line(quiet_in_logs=True) as progress:
        built = build_engine(config, progress=progress)
    prompt_ids = _encode(built, prompt, system, raw)
    context = min(built.engine.limits.max_model_len, built.engine.limits.pool_tokens)
    request = Request(
        id=_REQUEST_ID,
        prompt_ids=tuple(prompt_ids),
        sampling=SamplingParams(
            max_tokens=min(max_tokens, max(1, context - len(prompt_ids))),
            temperature=temperature,
            top_p=top_p,
            seed=secrets.randbelow(2**31) if seed is None else seed,
            stop_ids=built.tokenizer.eos_ids,
        ),
        tier=Tier.REALTIME,
        stop=tuple(stop or ()),
    )
    try:
        last = stream_reply(built.engine, request, _write)
    finally:
        built.engine.stop(timeout_s=0)
    _end(last)


def _encode(built: BuiltEngine, prompt: str, system: str | None, raw: bool) -> list[int]:
    if raw:
        return built.tokenizer.encode(prompt, add_special=True, parse_special=False)
    if built.chat_template is None:
        raise CommandError("this model has no chat template; --raw continues the prompt as it is")
    messages = [{"role": "user", "content": prompt}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return built.tokenizer.encode(built.chat_template.render(messages), add_special=False)


def stream_reply(engine: Engine, request: Request, write: Callable[[str], None]) -> TokenEvent:
    """Run one request, pass its text to `write`, and return its last event. Ctrl-C cancels it and is raised again."""
    inbox: queue.SimpleQueue[Sequence[TokenEvent]] = queue.SimpleQueue()
    engine.submit(request, inbox.put)
    interrupted: BaseException | None = None
    events: deque[TokenEvent] = deque()
    while True:
        try:
            if not events:
                events.extend(inbox.get())
            event = events[0]  # taken out only when it is dealt with, as an interruption comes at any point
            write(event.text)
            if event.finish is not None:
                if interrupted is not None:
                    raise interrupted
                return event
            events.popleft()
        except (KeyboardInterrupt, BrokenPipeError) as error:
            if interrupted is not None:
                raise
            interrupted, write = error, _ignore
            engine.cancel(request.id)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _ignore(text: str) -> None:
    """The reader has gone."""


def _end(last: TokenEvent) -> None:
    print()
    if last.finish is FinishReason.LENGTH:
        print("[the reply reached its longest length; --max-tokens allows more]", file=sys.stderr)
    elif last.finish in (FinishReason.FAILED, FinishReason.REFUSED):
        raise CommandError(last.message or "the reply failed")
