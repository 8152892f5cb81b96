"""Where the value of every setting comes from. Meanings and bounds are in settings.py.

This is the only reader of configs/ and of the environment. A value comes from, first found first taken: a flag, the
variable ANDES_<SECTION>_<FIELD>, the file or named variant given with --config, and configs/default.yaml.
A Config is complete and immutable once made.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, get_origin

import yaml
from pydantic import ValidationError

from andes_jax.failure import UsageError
from andes_jax.settings import SECTIONS, Config, Section, environment_name, field_type, flag_name

__all__ = [
    "Config",
    "ConfigError",
    "configs_folder",
    "debug_requested",
    "load_config",
    "share_metrics",
    "user_cache_folder",
    "variants",
]


VARIABLES = "ANDES_"  # what the names of all variables begin with
NO_SETTINGS = ("ANDES_CONFIG", "ANDES_DEBUG")  # read by themselves

logger = logging.getLogger(__name__)


class ConfigError(UsageError):
    """A setting that cannot be used: one line with its name, the value, where it came from, and what is allowed."""


def configs_folder() -> Traversable:
    """configs/ inside the installed wheel, or beside the package in a checkout."""
    packaged = resources.files("andes_jax") / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "configs"


def variants() -> list[str]:
    """Names that --config takes besides a path."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in configs_folder().iterdir() if entry.name[-5:] == ".yaml"
    )


def user_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where this program may keep what it can make again."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    return Path(base, "andes-jax")


def user_state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where this program may keep what it has to find again."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home(), ".local", "state")
    return Path(base, "andes-jax")


def debug_requested(environ: Mapping[str, str] | None = None) -> bool:
    """Whether ANDES_DEBUG asks for tracebacks."""
    return (os.environ if environ is None else environ).get("ANDES_DEBUG", "") not in ("", "0")


def share_metrics(folder: Path) -> None:
    """Let processes that are started from now on keep their Prometheus metrics in a folder, where they are added up."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)


def load_config(
    *,
    file: str | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    variant: str | None = None,
) -> Config:
    """Settle every setting.

    Args:
        file: a YAML file, or the name of a variant in configs/; None reads ANDES_CONFIG, else takes `variant`.
        flags: "section.field" to value, where text is read as in a variable; None values count as not given.
        environ: the environment; None is the process's own.

    Raises ConfigError on the first unknown key or unusable value.
    """
    environ = os.environ if environ is None else environ
    given = _from_yaml((configs_folder() / "default.yaml").read_text(encoding="utf-8"), "configs/default.yaml")
    file = file or environ.get("ANDES_CONFIG") or variant
    if file is not None:
        given |= _from_yaml(_read_config(file), file)
    given |= _from_environment(environ)
    for key, value in (flags or {}).items():
        if value is not None:
            section, _, field = key.partition(".")
            _require_known(section, field, key)
            text = isinstance(value, str)
            given[section, field] = (_parse_text(value, section, field) if text else value, flag_name(field))
    keys, source = given["server", "api_keys"]
    if keys == ():  # from text; a file says it on purpose with []
        raise ConfigError(
            f"server.api_keys is given but holds no key (from {source}); to serve everyone leave it out altogether"
        )
    if given["server", "data_dir"][0] is None:
        given["server", "data_dir"] = (user_state_folder(environ), "the user's state folder")
    if given["engine", "compile_cache_dir"][0] is None:
        given["engine", "compile_cache_dir"] = (user_cache_folder(environ) / "compiled", "the user's cache folder")
    return Config.model_validate({name: _section(name, given) for name in SECTIONS})


Given = dict[tuple[str, str], tuple[Any, str]]  # (section, field) -> value and where it came from


def _read_config(file: str) -> str:
    if file in variants():
        return (configs_folder() / f"{file}.yaml").read_text(encoding="utf-8")
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            f"cannot read the configuration {file!r}: {reason}; give a YAML file or one of {', '.join(variants())}"
        ) from error


def _from_yaml(text: str, source: str) -> Given:
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{source} should hold sections ({', '.join(SECTIONS)}), not a {type(tree).__name__}")
    given: Given = {}
    for section, fields in tree.items():
        if section not in SECTIONS:
            raise ConfigError(f"unknown section {section!r} in {source}; there are {', '.join(SECTIONS)}")
        if not isinstance(fields, dict | None):
            raise ConfigError(f"section {section!r} in {source} should hold settings, not a {type(fields).__name__}")
        for field, value in (fields or {}).items():
            _require_known(section, str(field), source)
            given[section, field] = (value, source)
    return given


def _from_environment(environ: Mapping[str, str]) -> Given:
    given: Given = {}
    for name, text in environ.items():
        rest = name.removeprefix(VARIABLES)
        if rest == name or name in NO_SETTINGS:
            continue
        section = next((each for each in SECTIONS if rest.startswith(f"{each}_".upper())), None)
        if section is None:
            _warn_of_likely_slip(name, text)
            continue
        field = rest[len(section) + 1 :].lower()
        _require_known(section, field, name)
        given[section, field] = (_parse_text(text, section, field), name)
    return given


def _warn_of_likely_slip(name: str, text: str) -> None:
    """Say that a variable without a section is ignored, if it looks like one of ours and not like an orchestrator's."""
    if text.startswith(("tcp://", "udp://")):
        return
    section, _, field = name.removeprefix(VARIABLES).lower().partition("_")
    meant = difflib.get_close_matches(section, SECTIONS, n=1, cutoff=0.8)  # below it lies SERVICE, as in _SERVICE_HOST
    if not meant:
        field = f"{section}_{field}" if field else section
        meant = [each for each, model in SECTIONS.items() if field in model.model_fields]
    if meant:
        likely = environment_name(meant[0], field)
        logger.warning("the variable %s is ignored, it names no section; did you mean %s?", name, likely)


def _parse_text(text: str, section: str, field: str) -> Any:
    """Variables and flags hold text: empty and null mean none, and lists are separated by commas."""
    none = text.strip().lower() in ("", "null", "none")
    kind, _ = field_type(SECTIONS[section].model_fields[field])
    if get_origin(kind) is tuple:
        return () if none else tuple(part.strip() for part in text.split(",") if part.strip())
    return None if none else text.strip()


def _require_known(section: str, field: str, source: str) -> None:
    if section not in SECTIONS or field not in SECTIONS[section].model_fields:
        known = ", ".join(SECTIONS[section].model_fields) if section in SECTIONS else ", ".join(SECTIONS)
        raise ConfigError(f"unknown setting {section}.{field} (from {source}); there are {known}")


def _section(name: str, given: Given) -> Section:
    values = {field: value for (section, field), (value, _) in given.items() if section == name}
    try:
        return SECTIONS[name].model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if first["type"] == "tuple_type":
            reason = "should be a list, such as [first, second]"
        if not first["loc"]:
            raise ConfigError(reason) from error
        field = str(first["loc"][0])
        value, source = given.get((name, field), (None, "configs/default.yaml"))
        shown = "***" if not SECTIONS[name].model_fields[field].repr else repr(value)
        raise ConfigError(f"{name}.{field} = {shown} (from {source}): {reason}") from error
