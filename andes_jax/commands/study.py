"""Command-line options of `simulate` and `plan`: which requests come, and to which machine."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from andes_jax.scheduling.limits import MOST_STEP_TOKENS

if TYPE_CHECKING:
    from andes_jax.simulation.sweep import Study

DEFAULT_DURATION_S = 600.0
WIDTH = 132  # characters, where the output is no terminal

_REQUESTS, _MACHINE = "Requests", "Machine"


Trace = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_REQUESTS,
        help="Requests to replay: CSV with arrived_s, prompt_tokens and output_tokens; Azure's or Mooncake's own "
        "format; a --request-log of one's own server; or lengths alone. May be compressed by gzip.",
    ),
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        metavar="PROCESS",
        rich_help_panel=_REQUESTS,
        help="Draw requests from the trace at random instead of replaying it: poisson, gamma:CV (bursts: CV above "
        "1) or on_off:ON_SECONDS/OFF_SECONDS. Rates are then requests per second. Needed for lengths alone.",
    ),
]
Start = Annotated[float, typer.Option(min=0, rich_help_panel=_REQUESTS, help="Begin at this second of the trace.")]
End = Annotated[
    float | None, typer.Option(min=0, rich_help_panel=_REQUESTS, help="Leave out what came from this second on.")
]
Duration = Annotated[
    float | None,
    typer.Option(
        min=1,
        rich_help_panel=_REQUESTS,
        help=f"Seconds in which requests come; with --arrivals {DEFAULT_DURATION_S:.0f}, else the whole window.",
    ),
]
Tiers = Annotated[
    str | None,
    typer.Option(
        metavar="SHARES",
        rich_help_panel=_REQUESTS,
        help="Tiers of the requests by chance, such as realtime=0.7,streaming=0.2,batch=0.1. Without it the "
        "trace's own, or realtime.",
    ),
]
Readers = Annotated[
    str,
    typer.Option(
        metavar="SPEED",
        rich_help_panel=_REQUESTS,
        help="How fast people read: paper (4 to 5 tokens/s by age), fast (programs: 20 to 50), none, or a number "
        "of tokens per second. Nobody reads along with batch work.",
    ),
]
Ttft = Annotated[
    float, typer.Option(min=0.001, rich_help_panel=_REQUESTS, help="Seconds in which a first token is expected.")
]
CancelShare = Annotated[
    float, typer.Option(min=0, max=1, rich_help_panel=_REQUESTS, help="Share of readers who leave early.")
]
Scale = Annotated[
    float, typer.Option(min=1e-6, rich_help_panel=_REQUESTS, help="Prompts and replies are so many times as long.")
]
LimitTokens = Annotated[
    int | None,
    typer.Option(min=2, rich_help_panel=_REQUESTS, help="Leave out requests of more tokens, prompt and reply."),
]
Profile = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_MACHINE,
        help="CHIP:MODEL, such as a100-40gb:llama-2-13b, or a file that andes-jax profile wrote.",
    ),
]
KvTokens = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=_MACHINE, help="Tokens in the key-value cache, instead of the profile's."),
]
HostKvTokens = Annotated[
    int, typer.Option(min=0, rich_help_panel=_MACHINE, help="Tokens of paused replies that host memory holds.")
]
MaxSequences = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_STEP_TOKENS, rich_help_panel=_MACHINE, help="Replies computed at once at most."),
]
MaxModelLen = Annotated[
    int | None,
    typer.Option(
        min=2, rich_help_panel=_MACHINE, help="Tokens of prompt and reply at most; longer requests are refused."
    ),
]
Predict = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        rich_help_panel=_MACHINE,
        help="What policies are told of reply lengths: none, oracle (the truth), or the standard deviation of the "
        "logarithm of a prediction's error, such as 0.6.",
    ),
]


def make_study(
    trace: Trace,
    arrivals: Arrivals = None,
    start: Start = 0.0,
    end: End = None,
    duration: Duration = None,
    tiers: Tiers = None,
    readers: Readers = "paper",
    ttft: Ttft = 1.0,
    cancel_share: CancelShare = 0.0,
    scale: Scale = 1.0,
    limit_tokens: LimitTokens = None,
    profile: Profile = "h200:llama-3-8b",
    kv_tokens: KvTokens = None,
    host_kv_tokens: HostKvTokens = 0,
    max_sequences: MaxSequences = None,
    max_model_len: MaxModelLen = None,
    predict: Predict = "none",
) -> Study:
    """What the options ask for. Raises UserError where they do not fit each other or the trace."""
    from andes_jax.failure import UsageError
    from andes_jax.simulation.experiment import Options
    from andes_jax.simulation.oracles import noise_of
    from andes_jax.simulation.profiles import load_profile
    from andes_jax.simulation.sweep import Study
    from andes_jax.workload.arrivals import Workload
    from andes_jax.workload.process import parse_process
    from andes_jax.workload.readers import parse_readers, parse_tiers
    from andes_jax.workload.traces import read_trace

    process = None if arrivals is None else parse_process(arrivals)
    if duration is None and process is not None:
        duration = DEFAULT_DURATION_S
    noise_of(predict)
    workload = Workload(
        process=process,
        start_s=start,
        end_s=end,
        duration_s=duration,
        tiers=None if tiers is None else parse_tiers(tiers),
        readers=parse_readers(readers, ttft),
        length_scale=scale,
        max_tokens=limit_tokens,
        cancelled=cancel_share,
    )
    machine = load_profile(profile, kv_tokens)
    rows = read_trace(trace)
    if process is None and rows and rows[0].arrived_s is None:
        raise UsageError(
            f"{trace} holds lengths without arrivals; add --arrivals poisson, gamma:CV or on_off:ON_SECONDS/OFF_SECONDS"
        )
    options = Options(
        predict=predict, host_kv_tokens=host_kv_tokens, max_sequences=max_sequences, max_model_len=max_model_len
    )
    return Study(rows, workload, machine, options)


def takes_study(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `make_study`, and the Study as its first argument; its own options stay."""
    # What a Study is need not be known for that: the program starts without all that simulates.
    shared, asked = (
        inspect.signature(each, eval_str=True, locals={"Study": object}).parameters for each in (make_study, command)
    )
    own = list(asked.values())[1:]

    def run(**values: Any) -> Any:
        return command(make_study(**{name: values.pop(name) for name in shared}), **values)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in [*own, *shared.values()]]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    return run


def own_demand(study: Study) -> tuple[float | None, float | None]:
    """Requests per second of the part of the trace that is replayed: on average, and in its busiest minute."""
    from andes_jax.simulation.capacity import demand
    from andes_jax.workload.arrivals import fitting, window

    chosen = study.workload
    return demand(fitting(window(study.rows, chosen.start_s, chosen.end_s), chosen))


def console() -> Console:
    """Where tables go; wide enough for them where it is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=max(made.width, WIDTH))
