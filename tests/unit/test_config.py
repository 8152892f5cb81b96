"""andes_jax.config with andes_jax.settings and andes_jax.byte_size."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from andes_jax.byte_size import format_byte_size, parse_byte_size
from andes_jax.config import (
    ConfigError,
    configs_folder,
    debug_requested,
    load_config,
    user_cache_folder,
    user_state_folder,
    variants,
)
from andes_jax.settings import SECTIONS

TLS = {"server.certfile": "c.pem", "server.keyfile": "k.pem"}


def settle(**arguments):
    return load_config(**{"environ": {"HOME": "/home-of-nobody"}, **arguments})


def complaint(**arguments) -> str:
    with pytest.raises(ConfigError) as caught:
        settle(**arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_those_of_the_requirements():
    config = settle()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8000)
    assert (config.scheduling.alpha, config.scheduling.beta, config.scheduling.gamma) == (0.6, 0.3, 0.1)
    assert (config.scheduling.policy, config.scheduling.max_preempt) == ("three_tier", 3)
    assert config.model.source is None and config.server.max_body_bytes == 16 * 2**20


def test_each_source_overrides_the_one_below(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("server: {port: 1}\nengine: {max_sequences: 5}\n")
    environ = {"ANDES_SERVER_PORT": "2"}
    assert settle(file=str(file)).server.port == 1
    assert settle(file=str(file), environ=environ).server.port == 2
    both = settle(file=str(file), environ=environ, flags={"server.port": "3"})
    assert (both.server.port, both.engine.max_sequences, both.server.host) == (3, 5, "127.0.0.1")
    assert settle(flags={"server.port": None}, environ=environ).server.port == 2


def test_variant_stands_in_for_no_file_and_yields_to_one(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("")
    assert settle(variant="single").engine.max_sequences == 1
    assert settle(variant="single", file="low-memory").engine.max_sequences == 4
    assert settle(variant="single", environ={"ANDES_CONFIG": str(file)}).engine.max_sequences == 32


@pytest.mark.parametrize("name", [name for name in variants() if name != "default"])
def test_named_variants_are_short_and_differ(name):
    assert settle(file=name) != settle()
    assert len((configs_folder() / f"{name}.yaml").read_text().splitlines()) <= 15


def test_default_file_holds_every_setting():
    tree = yaml.safe_load((configs_folder() / "default.yaml").read_text())
    assert {section: set(fields) for section, fields in tree.items()} == {
        section: set(model.model_fields) for section, model in SECTIONS.items()
    }


def test_field_names_are_unique_because_flags_are():
    names = [field for model in SECTIONS.values() for field in model.model_fields]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"environ": {"ANDES_SERVER_PORT": "tcp://10.0.0.1:80"}}, ["server.port", "tcp://", "ANDES_SERVER_PORT"]),
        ({"environ": {"ANDES_SERVER_PROT": "80"}}, ["server.prot", "ANDES_SERVER_PROT", "port"]),
        ({"flags": {"server.port": "70000"}}, ["server.port", "--port", "65535"]),
        ({"flags": {"engine.kv_pool_bytes": "9xB"}}, ["engine.kv_pool_bytes", "--kv-pool-bytes", "512MiB"]),
        ({"flags": {"engine.max_sequences": "null"}}, ["engine.max_sequences", "--max-sequences"]),
        ({"flags": {"engine.max_sequences": True}}, ["engine.max_sequences", "true or false"]),
        ({"flags": {"scheduling.alpha": "nan"}}, ["scheduling.alpha", "finite"]),
        ({"flags": {"scheduling.policy": "lifo"}}, ["scheduling.policy", "three_tier", "fcfs"]),
        ({"flags": {"server.certfile": "x.pem"}}, ["server.certfile", "server.keyfile"]),
        ({"flags": {"server.insecure_port": "80"}}, ["server.insecure_port", "server.certfile", "server.port"]),
        ({"flags": TLS | {"server.insecure_port": "8000"}}, ["server.insecure_port", "server.port", "8000"]),
        ({"flags": {"server.nothing": "x"}}, ["server.nothing"]),
        ({"file": "nowhere.yaml"}, ["nowhere.yaml", "low-memory"]),
        ({"file": "."}, ["'.'", "directory"]),
    ],
)
def test_what_cannot_be_used_is_named_with_its_source(arguments, parts):
    message = complaint(**arguments)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("server: {prot: 1}", "server.prot"),
        ("sever: {port: 1}", "'sever'"),
        ("server: 3", "'server'"),
        ("- 1", "sections"),
        ("server: {port: [", "not YAML"),
        ("server: {port: yes}", "server.port"),
        ("server: {api_keys: abc}", "should be a list, such as [first, second]"),
        ("server: {cors_origins: null}", "should be a list"),
        ("1: {port: 1}", "unknown section"),
        ("server: {1: 1}", "server.1"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, text, part):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    message = complaint(file=str(file))
    assert "bad.yaml" in message and part in message, message


def test_a_file_that_is_not_text_is_refused(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF\xff\xfe")
    assert "UTF-8" in complaint(file=str(file))


def test_keys_are_lists_and_stay_out_of_messages():
    config = settle(environ={"ANDES_SERVER_API_KEYS": "first, second"})
    assert config.server.api_keys == ("first", "second")
    assert "first" not in repr(config)
    assert "sesame" not in complaint(flags={"server.api_keys": 7, "server.port": 1}) + complaint(
        flags={"server.api_keys": ("sesame", "")}
    )


@pytest.mark.parametrize("text", ["", " ", ",", " , ", "null", "None"])
def test_keys_that_are_given_but_empty_do_not_open_the_server(tmp_path, text):
    for source, arguments in {
        "--api-keys": {"flags": {"server.api_keys": text}},
        "ANDES_SERVER_API_KEYS": {"environ": {"ANDES_SERVER_API_KEYS": text}},
    }.items():
        message = complaint(**arguments)
        assert source in message and "leave it out" in message
    file = tmp_path / "open.yaml"
    file.write_text("server: {api_keys: []}")
    assert settle().server.api_keys == settle(file=str(file)).server.api_keys == ()
    both = settle(environ={"ANDES_SERVER_API_KEYS": ""}, flags={"server.api_keys": "a"})
    assert both.server.api_keys == ("a",), "a key that is given in a stronger place is a key"
    assert settle(environ={"ANDES_SERVER_CORS_ORIGINS": "null"}).server.cors_origins == ()


def test_variables_of_other_programs_are_left_alone(caplog):
    others = {"ANDES_HOME": "/", "ANDES_SERVICE_HOST": "10.0.0.1", "ANDES_SERVICE_PORT_HTTP": "80", "ANDES_DEBUG": "1"}
    others |= {"ANDES_PORT": "tcp://10.0.0.1:80", "ANDES_PORT_80_TCP_ADDR": "10.0.0.1", "ANDES_CONFIG": "default"}
    assert settle(environ=others) == settle(environ={})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("ANDES_SERVR_PORT", "ANDES_SERVER_PORT"),
        ("ANDES_ENGINES_MAX_SEQUENCES", "ANDES_ENGINE_MAX_SEQUENCES"),
        ("ANDES_MODLE_DTYPE", "ANDES_MODEL_DTYPE"),
        ("ANDES_API_KEYS", "ANDES_SERVER_API_KEYS"),
        ("ANDES_PORT", "ANDES_SERVER_PORT"),
    ],
)
def test_a_variable_that_is_likely_a_slip_is_ignored_aloud(caplog, name, likely):
    assert settle(environ={name: "1"}) == settle(environ={})
    (message,) = caplog.messages
    assert name in message and f"{likely}?" in message


def test_state_folder_follows_the_user():
    assert user_state_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/andes-jax")
    assert user_state_folder({"HOME": "/h"}) == Path("/h/.local/state/andes-jax")
    assert settle(environ={"HOME": "/h"}).server.data_dir == Path("/h/.local/state/andes-jax")
    assert settle(flags={"server.data_dir": "/d"}).server.data_dir == Path("/d")


def test_cache_folder_follows_the_user():
    assert user_cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/andes-jax")
    assert user_cache_folder({"HOME": "/h"}) == Path("/h/.cache/andes-jax")
    assert settle(environ={"HOME": "/h"}).engine.compile_cache_dir == Path("/h/.cache/andes-jax/compiled")
    assert settle(flags={"engine.compile_cache_dir": "/d"}).engine.compile_cache_dir == Path("/d")


def test_debug_is_asked_for_by_variable():
    assert debug_requested({"ANDES_DEBUG": "1"})
    assert not debug_requested({"ANDES_DEBUG": "0"}) and not debug_requested({})


def test_two_ports_may_both_be_left_to_the_system():
    server = settle(flags=TLS | {"server.port": "0", "server.insecure_port": "0"}).server
    assert (server.port, server.insecure_port) == (0, 0)


def test_a_config_cannot_be_changed():
    with pytest.raises(ValidationError):
        settle().server.port = 1


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1GiB", 2**30), ("1.5 GiB", 3 * 2**29), ("2G", 2**31), ("10MB", 10**7), ("1kib", 1024)],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1 XB", "GiB", "1e3", "0x10", "1 2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="512MiB"):
        parse_byte_size(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_shown_sizes_read_back_within_their_precision(size):
    shown = parse_byte_size(format_byte_size(size))
    assert abs(shown - size) <= 0.06 * size
