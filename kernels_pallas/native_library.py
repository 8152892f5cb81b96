"""Compiles a C++ source of this package on the machine that runs it, and keeps the result.

Compiled here and now, the code uses just the instructions this CPU has, and the wheel stays free of binaries.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax

# -ffast-math is left out: linking with it turns denormal numbers off for the whole process
_FLAGS = (
    *("-std=gnu++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fPIC", "-shared", "-Wno-psabi"),
)
_COMPILERS = ("g++", "c++", "clang++")
_COMPILE_LIMIT_S = 300


class NativeUnavailable(Exception):
    """Native code cannot be had here: one line with the reason."""


def load(source: Path, folder: Path) -> ctypes.CDLL:
    """The shared library of `source`, from `folder` where an earlier start left it, else compiled into it.

    Raises NativeUnavailable where there is no compiler or it fails.
    """
    compiler = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise NativeUnavailable(f"no C++ compiler ({', '.join(_COMPILERS)}) is installed")
    library = folder / f"{source.stem}-{_fingerprint(source, compiler)}.so"
    if not library.exists():
        _compile(compiler, source, library)
    return ctypes.CDLL(str(library))


def _fingerprint(source: Path, compiler: str) -> str:
    """Changes with anything that could make an older library wrong: code, flags, headers, compiler, CPU."""
    parts = (source.read_bytes(), repr((_FLAGS, jax.__version__, compiler, _cpu())).encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "".join(line for line in lines[:40] if line.startswith(("model name", "flags", "Features")))


def _compile(compiler: str, source: Path, library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        made = Path(scratch, library.name)
        command = [compiler, *_FLAGS, "-I", jax.ffi.include_dir(), str(source), "-o", str(made)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S)
        except subprocess.CalledProcessError as error:
            first_error = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr[:200])
            raise NativeUnavailable(f"{compiler} cannot compile {source.name}: {first_error}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NativeUnavailable(f"{compiler} cannot compile {source.name}: {error}") from error
        made.replace(library)  # whole or not at all, whoever else starts at the same time
