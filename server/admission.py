"""From a validated body to requests the engine can be asked for. All input errors end here, before a reply begins."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from andes_jax.request import QoeTarget, Request, SamplingParams, Tier
from server.context import ServerContext
from server.errors import ApiError, quoted
from server.rendering import Renderer
from server.schemas.chat import ChatBody
from server.schemas.completions import CompletionBody
from server.schemas.sampling import GenerationBody

TOKENIZER_THREADS = 2
SEED_BITS = 63
ENCODED_BYTES = 1024 * 1024  # texts up to this size are always encoded, so that the error has the exact number


def request_id_of(call_id: str, index: int) -> str:
    """The id of a call's request with this index."""
    return f"{call_id}:{index}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its tokens, and the text they came from (None: the caller gave tokens)."""

    ids: tuple[int, ...]
    text: str | None


@dataclass(frozen=True, slots=True)
class Work:
    """What one call asks of the engine: n choices for each prompt, in the order of their index."""

    id: str
    prompts: tuple[Prompt, ...]
    requests: tuple[Request, ...]

    @property
    def choices(self) -> int:
        """n: replies to one prompt."""
        return len(self.requests) // len(self.prompts)


class Admission:
    """Renders, encodes and checks. Rendering and encoding run in threads; everything else is quick."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self.renderer = Renderer(context)
        self._threads = ThreadPoolExecutor(TOKENIZER_THREADS, "tokenize")
        vocabulary = range(context.tokenizer.vocab_size)
        # No text of more bytes fits into a token's place.
        self._token_bytes = max((len(context.tokenizer.table.bytes_of(each)) for each in vocabulary), default=1) or 1

    async def in_thread[T](self, work: Callable[[], T]) -> T:
        """Run rendering or encoding off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def check_model(self, model: str | None) -> None:
        """A name left out is the served model; raises ApiError (404) for another's."""
        if model is not None and model != self._context.model_id:
            ours = quoted(self._context.model_id, 200)
            raise ApiError(
                f"The model {quoted(model, 200)} does not exist; this server has {ours}.",
                status=404,
                code="model_not_found",
                param="model",
            )

    async def chat(self, body: ChatBody, call_id: str, arrived_s: float) -> Work:
        """The requests of a chat call that was checked."""
        prompt = await self.in_thread(lambda: self._chat_prompt(body))
        name = "max_tokens" if body.max_tokens is not None else "max_completion_tokens"
        asked = body.max_tokens if body.max_tokens is not None else body.max_completion_tokens
        max_tokens = self._max_tokens(len(prompt.ids), asked, name, prompt_param="messages")
        top = (body.top_logprobs or 0) if body.logprobs else None
        return self._work(body, call_id, arrived_s, [prompt], [max_tokens], top_logprobs=top)

    async def completion(self, body: CompletionBody, call_id: str, arrived_s: float) -> Work:
        """The requests of a completions call that was checked."""
        prompts = await self.in_thread(lambda: [self._completion_prompt(body, each) for each in body.prompt])
        limits = [self._max_tokens(len(each.ids), body.max_tokens, "max_tokens", "prompt") for each in prompts]
        scored = body.echo and body.logprobs is not None
        return self._work(body, call_id, arrived_s, prompts, limits, top_logprobs=body.logprobs, prompt_logprobs=scored)

    def encode(self, text: str, *, add_special: bool, param: str) -> tuple[int, ...]:
        """Tokens of a text; raises ApiError (400) for one that has none."""
        try:
            return tuple(self._context.tokenizer.encode(text, add_special=add_special))
        except ValueError as error:
            raise ApiError(f"Invalid value for '{param}': {error}.", code="invalid_value", param=param) from None

    def check_bytes(self, text: str, param: str) -> None:
        """Refuse a large text without encoding it where it cannot fit the context, however few tokens it had."""
        size = len(text.encode())
        at_least = -(-size // self._token_bytes)
        if size > ENCODED_BYTES and at_least > self._context.context_length:
            raise self._too_long(f"at least {at_least}", param)

    def _chat_prompt(self, body: ChatBody) -> Prompt:
        generation = body.add_generation_prompt
        if generation is None:
            generation = not body.continue_final_message
        reserved = {"messages", "add_generation_prompt", "bos_token", "eos_token"} & set(body.chat_template_kwargs)
        if reserved:
            raise ApiError(f"'{min(reserved)}' cannot be set here.", code="invalid_value", param="chat_template_kwargs")
        render = self.renderer.continued if body.continue_final_message else self.renderer.whole
        text = render(body.messages, add_generation_prompt=generation, **body.chat_template_kwargs)
        self.check_bytes(text, "messages")
        return Prompt(self.encode(text, add_special=body.add_special_tokens, param="messages"), text)

    def _completion_prompt(self, body: CompletionBody, prompt: str | tuple[int, ...]) -> Prompt:
        if isinstance(prompt, str):
            self.check_bytes(prompt, "prompt")
            return Prompt(self.encode(prompt, add_special=body.add_special_tokens, param="prompt"), prompt)
        self._check_ids(prompt, "prompt")
        return Prompt(prompt, None)

    def _check_ids(self, ids: tuple[int, ...], param: str) -> None:
        vocab_size = self._context.tokenizer.vocab_size
        if ids and max(ids) >= vocab_size:
            raise ApiError(
                f"Invalid value for '{param}': token ids must be below {vocab_size}, the size of the vocabulary.",
                code="invalid_value",
                param=param,
            )

    def check(self, body: GenerationBody) -> None:
        """Everything that needs no tokens, to be called first; raises ApiError (400, 404)."""
        self.check_model(body.model)
        settings = self._context.settings
        prompts = body.prompt_count
        for name, what, value, limit in (
            ("n", "replies to a prompt", body.n, settings.max_choices),
            ("prompt", "prompts", prompts, settings.max_prompts),
            ("n" if body.n > 1 else "prompt", "replies", prompts * body.n, self._context.engine.limits.max_live),
        ):
            if value > limit:
                raise ApiError(
                    f"Invalid value for '{name}': at most {limit} {what} can be asked for in one call, not {value}.",
                    code="invalid_value",
                    param=name,
                )
        self._check_ids(tuple(each for each, _ in body.logit_bias), "logit_bias")
        self._check_ids(body.stop_token_ids, "stop_token_ids")

    def _max_tokens(self, prompt_tokens: int, asked: int | None, name: str, prompt_param: str) -> int:
        """Tokens that may be generated; raises ApiError (400) when prompt and reply cannot fit the context."""
        limit = self._context.context_length
        if prompt_tokens == 0:
            raise ApiError("The prompt is empty.", code="invalid_value", param=prompt_param)
        if prompt_tokens + (0 if asked == 0 else 1) > limit:
            raise self._too_long(str(prompt_tokens), prompt_param)
        if asked is None:
            default = self._context.settings.default_max_tokens
            return min(limit - prompt_tokens, default or limit)
        if prompt_tokens + asked > limit:
            raise ApiError(
                f"This model's maximum context length is {limit} tokens, but {prompt_tokens + asked} were requested: "
                f"{prompt_tokens} in the prompt and {asked} for the reply. '{name}' can be at most "
                f"{limit - prompt_tokens}.",
                code="context_length_exceeded",
                param=name,
            )
        return asked

    def _too_long(self, prompt_tokens: str, param: str) -> ApiError:
        limit = self._context.context_length
        return ApiError(
            f"This model's maximum context length is {limit} tokens, prompt and reply together, but the prompt has "
            f"{prompt_tokens} tokens.",
            code="context_length_exceeded",
            param=param,
        )

    def _work(
        self,
        body: GenerationBody,
        call_id: str,
        arrived_s: float,
        prompts: list[Prompt],
        limits: list[int],
        *,
        top_logprobs: int | None,
        prompt_logprobs: bool = False,
    ) -> Work:
        for max_tokens in limits:
            if body.min_tokens > max_tokens:
                raise ApiError(
                    f"Invalid value for 'min_tokens': {body.min_tokens} is more than the {max_tokens} tokens that the "
                    "reply can have.",
                    code="invalid_value",
                    param="min_tokens",
                )
        stop_ids = tuple(dict.fromkeys((*self._eos_ids(body), *body.stop_token_ids)))
        expected = self._expected(body)
        requests: list[Request] = []
        for number, prompt in enumerate(prompts):
            seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed & (2**SEED_BITS - 1)
            for choice in range(body.n):
                sampling = SamplingParams(
                    max_tokens=limits[number],
                    temperature=body.temperature,
                    top_k=max(body.top_k, 0),
                    top_p=body.top_p,
                    min_p=body.min_p,
                    presence_penalty=body.presence_penalty,
                    frequency_penalty=body.frequency_penalty,
                    repetition_penalty=body.repetition_penalty,
                    logit_bias=body.logit_bias,
                    seed=seed,
                    choice=choice,
                    stop_ids=stop_ids,
                    min_tokens=body.min_tokens,
                    top_logprobs=top_logprobs,
                    prompt_logprobs=prompt_logprobs,
                )
                request = Request(
                    id=request_id_of(call_id, len(requests)),
                    prompt_ids=prompt.ids,
                    sampling=sampling,
                    tier=body.tier,
                    qoe=expected,
                    arrived_s=arrived_s,
                    stop=body.stop,
                    session=body.prompt_cache_key,
                    skip_special_tokens=body.skip_special_tokens,
                )
                requests.append(request)
        return Work(call_id, tuple(prompts), tuple(requests))

    def _expected(self, body: GenerationBody) -> QoeTarget | None:
        """When the call's reader expects text; None: nobody reads along."""
        usual, said = self._context.expectations.get(body.tier), body.andes
        if said is None or (said.expected_ttft_ms is None and said.expected_tokens_per_s is None):
            return usual
        if usual is None:
            usual = self._context.expectations[Tier.STREAMING]
        return QoeTarget(
            usual.first_token_s if said.expected_ttft_ms is None else said.expected_ttft_ms / 1000,
            usual.tokens_per_s if said.expected_tokens_per_s is None else said.expected_tokens_per_s,
        )

    def _eos_ids(self, body: GenerationBody) -> tuple[int, ...]:
        return () if body.ignore_eos else self._context.tokenizer.eos_ids
