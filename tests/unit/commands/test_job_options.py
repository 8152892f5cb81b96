"""Options of jobs that contradict each other."""

from __future__ import annotations

import pytest

from andes_jax.commands.job_options import JobOptions
from andes_jax.failure import UsageError


def of(server=None, server_model=None, api_key=None, quiet=False, progress="bar"):
    return JobOptions.of(server, server_model, api_key, None, 1.0, quiet, progress)


def test_what_is_shown():
    assert [of().show, of(progress="json").show, of(quiet=True, progress="json").show] == ["bar", "json", "nothing"]


@pytest.mark.parametrize(
    ("values", "words"),
    [({"progress": "dots"}, "--progress"), ({"server_model": "m"}, "need --server"), ({"api_key": "k"}, "--server")],
)
def test_wrong_use_is_told(values, words):
    with pytest.raises(UsageError, match=words):
        of(**values)
