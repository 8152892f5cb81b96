"""The compile cache and the counter, each in a process of its own: both are settings of a whole process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from pathlib import Path
import jax, jax.numpy as jnp
from andes_jax.runtime.compile_watch import CompileCounter, keep_compiled
keep_compiled(Path(sys.argv[1]))
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
counter = CompileCounter()
double = jax.jit(lambda x: x * 2.0)
x = jnp.ones(3)
double(x)
counter.mark_ready()
double(x)
same = counter.after_ready()
double(jnp.ones(4))
print(same, counter.after_ready() > same, hits.count("/jax/compilation_cache/cache_hits") > 0)
"""


def _run(folder) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_small_quick_programs_are_kept_and_found_again(tmp_path):
    folder = tmp_path / "not yet there" / "编译"
    assert _run(folder) == ["0", "True", "False"], "a fresh folder has no hits"
    assert any(folder.iterdir())
    assert _run(folder) == ["0", "True", "True"], "the second start finds its programs"
