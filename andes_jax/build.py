"""From settings to an engine: the one place where all parts meet."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

from andes_jax.byte_size import format_byte_size
from andes_jax.clock import WallClock
from andes_jax.config import Config
from andes_jax.engine import Engine
from andes_jax.failure import UserError
from andes_jax.memory.pool import PagePool
from andes_jax.memory.prefix import PrefixCache
from andes_jax.model.attention import NativeUnavailable, check_pool, pool_shape, prepare_implementation
from andes_jax.model.checkpoints import Checkpoint, open_checkpoint
from andes_jax.model.decoder import abstract_decoder, fill
from andes_jax.model.identity import model_identity
from andes_jax.model.spec import ModelSpec
from andes_jax.profiling.steps import StepListener, watch_steps
from andes_jax.runtime.compile_watch import CompileCounter, keep_compiled
from andes_jax.runtime.device import Device, current_device
from andes_jax.runtime.runner import DeviceRunner, RunnerSizes
from andes_jax.runtime.shapes import Ladder
from andes_jax.scheduling.limits import SchedulerLimits
from andes_jax.scheduling.policies import create_policy
from andes_jax.scheduling.priority import Weights
from andes_jax.scheduling.scheduler import Scheduler
from andes_jax.text.chat import ChatTemplate
from andes_jax.text.tokenizer import Tokenizer

DEFAULT_MODEL_LEN = 8192  # where the model could do more and nobody asked for it
EMBEDDED_NAME = "SmolLM2-135M-Instruct"

Progress = Callable[[str], None]


class BuildError(UserError):
    """Settings that do not fit the model or the device: one line with the numbers and what to change."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model is laid out on a device under some settings; nothing is allocated for it yet."""

    spec: ModelSpec
    device: Device
    dtype: jnp.dtype
    limits: SchedulerLimits
    sizes: RunnerSizes
    weight_bytes: int
    pool_bytes: int
    staging_bytes: int  # of device memory, for pages on their way to and from the host
    host_bytes: int  # of the host's memory, for pages of paused sequences

    @property
    def pool_tokens(self) -> int:
        """Tokens whose keys and values fit the pool."""
        return (self.sizes.pages - 1) * self.sizes.page_tokens

    @property
    def needed_bytes(self) -> int:
        """Bytes of device memory: weights, pool and staging, and on CPUs the paused sequences' pages too."""
        shared = self.host_bytes if self.device.platform == "cpu" else 0
        return self.weight_bytes + self.pool_bytes + self.staging_bytes + shared

    @property
    def context_tokens(self) -> int:
        """Longest prompt with its reply: what is wanted, or less where the pool holds less."""
        return min(self.limits.max_model_len, self.pool_tokens)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on the device; nothing is scheduled for it yet."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    fit: Fit
    runner: DeviceRunner
    compiles: CompileCounter


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A started engine and what its front ends need."""

    engine: Engine
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    model_id: str
    description: str  # one line for people
    identity: str  # digest by which front ends elsewhere know that they have the same model
    compiles_after_ready: Callable[[], int]
    watch_steps: Callable[[StepListener], None]


def fit(config: Config, spec: ModelSpec, device: Device) -> Fit:
    """Decide sizes. Raises BuildError for what the model or the device cannot do.

    A pool that holds less than one sequence of the wanted length is allowed: requests that cannot fit it are refused.
    """
    dtype = device.dtype(config.model.dtype)
    max_model_len = config.model.max_model_len or min(spec.max_position, DEFAULT_MODEL_LEN)
    if max_model_len > spec.max_position:
        raise BuildError(
            f"model.max_model_len is {max_model_len}, but this model was made for {spec.max_position} tokens"
        )
    page_tokens = config.engine.page_tokens or device.page_tokens
    implementation = _implementation(config, spec, device, page_tokens, dtype)
    page_bytes = spec.layers * math.prod(pool_shape(implementation, spec, 1, page_tokens)) * dtype.itemsize
    table_width = -(-max_model_len // page_tokens)
    weight_bytes = spec.parameters * dtype.itemsize
    pages = _pool_pages(config, device.pool_budget(weight_bytes), page_bytes, table_width)
    limits = SchedulerLimits(
        max_sequences=config.engine.max_sequences,
        max_model_len=max_model_len,
        step_tokens=config.engine.step_tokens,
        prefill_chunk=min(config.engine.prefill_chunk, config.engine.step_tokens),
        page_tokens=page_tokens,
        max_preempt=config.scheduling.max_preempt,
        warmup_steps=config.scheduling.warmup_iters,
        realtime_aim_s=config.scheduling.realtime_aim,
    )
    ladder = Ladder.for_limits(limits.max_sequences, limits.prefill_chunk, lone_row=dtype == jnp.float32)
    sizes = RunnerSizes(
        max_sequences=limits.max_sequences,
        pages=pages,
        page_tokens=page_tokens,
        table_width=table_width,
        ladder=ladder,
        implementation=implementation,
        kv_dtype=dtype,
        host_pages=config.engine.host_kv_bytes // page_bytes,
    )
    return Fit(
        spec,
        device,
        dtype,
        limits,
        sizes,
        weight_bytes=weight_bytes,
        pool_bytes=pages * page_bytes,
        staging_bytes=sizes.staging_pages * page_bytes,
        host_bytes=sizes.host_pages * page_bytes,
    )


def load(config: Config, *, progress: Progress | None = None) -> Loaded:
    """Load the model and compile what it needs.

    `progress` is told in words what is being done. Raises CheckpointError or BuildError.
    """
    say = progress or (lambda _: None)
    keep_compiled(config.engine.compile_cache_dir)
    compiles = CompileCounter()
    checkpoint = open_checkpoint(config.model.source)
    tokenizer = checkpoint.tokenizer()
    chosen = fit(config, checkpoint.spec, current_device())
    if chosen.needed_bytes > chosen.device.memory_bytes > 0:
        raise BuildError(memory_problem(chosen))
    say(f"loading {checkpoint.source}")
    try:
        runner = _load(checkpoint, chosen)
        if config.engine.warmup:
            runner.warm(lambda name, done, total: say(f"compiling {name} ({done} of {total})"))
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise BuildError(memory_problem(chosen)) from error
    return Loaded(checkpoint, tokenizer, chosen, runner, compiles)


def start(config: Config, loaded: Loaded) -> BuiltEngine:
    """Start an engine, which takes over the runner. Raises ValueError for a policy that does not exist."""
    scheduler = _scheduler(config, loaded.fit)
    engine = Engine(
        scheduler, loaded.runner, loaded.tokenizer.table, WallClock(), max_waiting=config.engine.max_waiting
    )
    loaded.compiles.mark_ready()
    gc.collect()
    gc.freeze()  # what is alive now stays; collections during serving need not walk over it
    engine.start()
    return BuiltEngine(
        engine=engine,
        tokenizer=loaded.tokenizer,
        chat_template=loaded.checkpoint.chat_template(),
        model_id=model_id(config),
        description=describe(loaded.fit, config.scheduling.policy),
        identity=model_identity(loaded.checkpoint.spec, loaded.tokenizer),
        compiles_after_ready=loaded.compiles.after_ready,
        watch_steps=partial(watch_steps, scheduler),
    )


def build_engine(config: Config, *, progress: Progress | None = None) -> BuiltEngine:
    """`load` and `start`, with their errors."""
    return start(config, load(config, progress=progress))


def _load(checkpoint: Checkpoint, chosen: Fit) -> DeviceRunner:
    empty = abstract_decoder(chosen.spec, chosen.dtype, chosen.sizes.implementation)
    return DeviceRunner(fill(empty, checkpoint.arrays(chosen.dtype)), chosen.sizes)


def memory_words(chosen: Fit) -> str:
    """What is needed and what there is."""
    device = chosen.device
    parts = [(chosen.weight_bytes, "weights"), (chosen.pool_bytes, "cache")]
    if chosen.host_bytes:
        parts += [(chosen.host_bytes, "host memory for paused replies"), (chosen.staging_bytes, "copies on their way")]
    *most, last = [f"{format_byte_size(size)} of {name}" for size, name in parts]
    return (
        f"{', '.join(most)} and {last}, "
        f"{format_byte_size(device.free_bytes)} of {format_byte_size(device.memory_bytes)} free"
    )


def memory_problem(chosen: Fit) -> str:
    """One line for where that does not fit, with ways out."""
    smaller = "choose a smaller --kv-pool-bytes or --host-kv-bytes, --dtype bfloat16, or a smaller model"
    return f"{memory_words(chosen)}; {smaller}"


def describe(chosen: Fit, policy: str) -> str:
    """One line: dtype, device, and how much fits there and in host memory."""
    wanted = chosen.limits.max_model_len
    paused = f", {format_byte_size(chosen.host_bytes)} of host memory for paused ones" if chosen.host_bytes else ""
    limited = f" (the cache holds no more; max_model_len is {wanted})" if chosen.context_tokens < wanted else ""
    return (
        f"{chosen.dtype.name} on {chosen.device.kind} with {chosen.sizes.implementation} attention, "
        f"{chosen.limits.max_sequences} sequences, "
        f"{chosen.context_tokens} tokens each at most{limited}, {chosen.pool_tokens} tokens of cache "
        f"({format_byte_size(chosen.pool_bytes)}){paused}, policy {policy}"
    )


def _implementation(config: Config, spec: ModelSpec, device: Device, page_tokens: int, dtype: jnp.dtype) -> str:
    """Of paged attention, ready to use and fit for the pool."""
    try:
        wanted = config.engine.attention
        implementation = prepare_implementation(wanted, device.platform, config.engine.compile_cache_dir)
        check_pool(implementation, spec, page_tokens, dtype)
    except (NativeUnavailable, ValueError) as error:
        raise BuildError(str(error)) from error
    return implementation


def _pool_pages(config: Config, budget: int, page_bytes: int, table_width: int) -> int:
    """Pages of the pool with page 0, which is scratch."""
    wanted = config.engine.max_sequences * table_width + 1
    given = config.engine.kv_pool_bytes
    pages = given // page_bytes if given is not None else min(wanted, budget // page_bytes)
    if pages < 2:
        size = format_byte_size(given if given is not None else budget)
        raise BuildError(
            f"a key-value cache of {size} holds no page of {format_byte_size(page_bytes)}; raise engine.kv_pool_bytes"
        )
    return pages


def _scheduler(config: Config, chosen: Fit) -> Scheduler:
    settings = config.scheduling
    weights = Weights(
        alpha=settings.alpha,
        beta=settings.beta,
        gamma=settings.gamma,
        allowed_wait_s=(settings.realtime_wait, settings.streaming_wait, settings.batch_wait),
        lift_s=settings.tier_lift,
        worst_first=settings.goal == "max_min",
    )
    prefix = PrefixCache(chosen.limits.page_tokens) if config.engine.prefix_cache else None
    policy = create_policy(settings.policy, max_model_len=chosen.limits.max_model_len, weights=weights)
    pages = chosen.sizes.pages
    pool = PagePool(pages, prefix, reserve=int((pages - 1) * settings.burst_reserve))
    return Scheduler(policy, pool, prefix, chosen.limits, host_pages=chosen.sizes.host_pages)


def model_id(config: Config) -> str:
    """The model's name where nobody gave it another."""
    if config.model.source is None:
        return EMBEDDED_NAME
    path = Path(config.model.source)
    return path.stem if path.suffix == ".gguf" else path.name
