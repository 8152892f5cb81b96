"""Command-line options made from the settings, so that each setting has a flag with its own description and bounds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
import typer
from pydantic.fields import FieldInfo

from andes_jax.byte_size import format_byte_size, parse_byte_size
from andes_jax.config import Config, load_config, variants
from andes_jax.settings import SECTIONS, environment_name, field_type, flag_name

_PANELS = {section: f"{section.capitalize()} (variables {environment_name(section, '…')})" for section in SECTIONS}
_MODEL_HELP = (
    "A GGUF file, a checkpoint folder (safetensors or Orbax) or a Hugging Face id; "
    "nothing is the embedded SmolLM2-135M-Instruct."
)


def takes_settings(
    *sections: str, model: Literal["argument", "option"], variant: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a flag for every setting in `sections`, and a settled Config as its first argument.

    Args:
        sections: whole sections, or single settings such as server.api_keys.
        model: whether the model is named by a positional argument or by --model.
        variant: the named variant in configs/ that stands in for the defaults.

    The command keeps its other parameters as options of its own.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        keys = [key for section in sections for key in _keys(section)]
        fields = {key.partition(".")[2]: key for key in keys}

        def run(*, model_source: str | None, config_file: str | None, **values: Any) -> Any:
            flags = {key: values.pop(field) for field, key in fields.items()}
            flags["model.source"] = model_source
            return command(load_config(file=config_file, flags=flags, variant=variant), **values)

        parameters = [_model_parameter(model), *own, _config_parameter(variant)]
        defaults = load_config(environ={}, variant=variant)
        parameters += [_parameter(key, defaults) for key in fields.values()]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {}
        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        return run

    return decorate


def _keys(section: str) -> list[str]:
    if "." in section:
        return [section]
    return [f"{section}.{field}" for field in SECTIONS[section].model_fields if field != "source"]


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _model_parameter(kind: str) -> inspect.Parameter:
    if kind == "argument":
        info: Any = typer.Argument(metavar="MODEL", help=_MODEL_HELP, show_default=False)
    else:
        info = typer.Option("--model", metavar="MODEL", help=_MODEL_HELP, rich_help_panel=_PANELS["model"])
    return _keyword("model_source", Annotated[str | None, info])


def _config_parameter(variant: str | None) -> inspect.Parameter:
    text = f"A YAML file, or a variant by name: {', '.join(variants())}."
    if variant is not None:
        text += f" Without it: {variant}."
    return _keyword("config_file", Annotated[str | None, typer.Option("--config", metavar="FILE", help=text)])


def _parameter(key: str, defaults: Config) -> inspect.Parameter:
    section, field = key.split(".")
    info = SECTIONS[section].model_fields[field]
    kind: Any = str
    if info.annotation is bool:
        declaration, kind, metavar = f"{flag_name(field)}/--no-{flag_name(field)[2:]}", bool, None
    else:
        declaration, metavar = flag_name(field), type_words(info)
    value = getattr(getattr(defaults, section), field)
    text, bounds = info.description or "", bounds_words(info)
    if bounds:
        text += f" Bounds: {bounds}."
    if value not in (None, ()) and field != "compile_cache_dir":
        shown = format_byte_size(value) if type_words(info) == "SIZE" else str(value).lower()
        text += f" Default: {shown}."
    option = typer.Option(declaration, metavar=metavar, help=text, rich_help_panel=_PANELS[section], show_default=False)
    return _keyword(field, Annotated[kind | None, option])


def type_words(info: FieldInfo) -> str:
    """A field's type in the words of --help, such as INTEGER, SIZE or fcfs|three_tier."""
    kind, extras = field_type(info)
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if get_origin(kind) is tuple:
        return "TEXT,TEXT,…"
    if any(getattr(extra, "func", None) is parse_byte_size for extra in extras):
        return "SIZE"
    return {int: "INTEGER", float: "NUMBER", bool: "BOOLEAN", str: "TEXT", Path: "PATH"}[kind]


def bounds_words(info: FieldInfo) -> str:
    """A field's bounds, such as `1 … 1024`; empty where there are none."""
    low = high = ""
    for constraint in field_type(info)[1]:
        if isinstance(constraint, annotated_types.Ge):
            low = f"{constraint.ge}"
        elif isinstance(constraint, annotated_types.Gt):
            low = f"above {constraint.gt}"
        elif isinstance(constraint, annotated_types.Le):
            high = f"{constraint.le}"
    if low and high:
        return f"{low} … {high}"
    return f"at least {low}" if low else ""


def setting_rows(section: str) -> list[dict[str, str]]:
    """What the documentation says of a section's settings: name, flag, variable, type, bounds, meaning."""
    return [
        {
            "name": f"{section}.{field}",
            "flag": "MODEL" if field == "source" else flag_name(field),
            "variable": environment_name(section, field),
            "type": type_words(info),
            "bounds": bounds_words(info),
            "meaning": info.description or "",
        }
        for field, info in SECTIONS[section].model_fields.items()
    ]
