"""The programs `andes-jax` and `andes-service`. Nobody imports this; what its commands do is in commands/."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import andes_jax
from andes_jax.commands.batch import batch
from andes_jax.commands.bench import bench
from andes_jax.commands.check import check
from andes_jax.commands.convert import convert
from andes_jax.commands.engine import engine
from andes_jax.commands.explain import explain
from andes_jax.commands.failure import report
from andes_jax.commands.generate import generate
from andes_jax.commands.plan import plan
from andes_jax.commands.profile import profile
from andes_jax.commands.profile_stream import profile_stream
from andes_jax.commands.serve import serve
from andes_jax.commands.simulate import simulate
from andes_jax.commands.summarize import summarize


class _Program(TyperGroup):
    """Ends like any program of a pipe when the reader of its output leaves, which click would make a failure."""

    def invoke(self, ctx: Any) -> Any:
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
            return value
        except BrokenPipeError:
            # As under `| head`: nothing is left to say, also not at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from None


app = typer.Typer(
    name="andes-jax",
    cls=_Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="A setting comes from its flag, else ANDES_SECTION_FIELD, else the file of --config.",
)
app.command()(serve)
app.command()(engine)
app.command()(generate)
app.command()(summarize)
app.command()(batch)
app.command()(convert)
app.command()(check)
app.command()(profile)
app.command("profile-stream")(profile_stream)
app.command()(explain)
app.command()(bench)
app.command()(simulate)
app.command()(plan)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"andes-jax {andes_jax.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Serve language models with streams that keep up with their readers.

    [bold]andes-jax serve[/bold] starts an OpenAI-compatible server on 127.0.0.1:8000 with a small embedded model.
    """


def service() -> None:
    """The program `andes-service`, which is `andes-jax serve` under the name that service files use."""
    sys.argv.insert(1, "serve")
    main()


def main() -> None:
    """Run the program; failures become one line on stderr and an exit code."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(report(error, sys.argv))


if __name__ == "__main__":
    main()
