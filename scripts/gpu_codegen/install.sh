#!/bin/bash
# install.sh VENV VERSION: make or update VENV with jax of VERSION and what compiles for NVIDIA GPUs without one:
# the CUDA plugin of the same version, and ptxas with libdevice. About 140 MB; no driver and no CUDA runtime.
set -eu

venv=$1
version=$2
cd "$(dirname "$0")/../.."

# Two makes at once would install over each other.
exec 9>".install-$(basename "$venv").lock"
if command -v flock >/dev/null; then
    flock 9
fi

stamp="$venv/.installed"
wanted=$(cksum <"$0"; echo "$version")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

if [ ! -x "$venv/bin/python" ]; then
    python=$(scripts/find_python.sh)
    echo "making $venv with $python (the packages take a minute or two)"
    "$python" -m venv --clear "$venv"
fi

"$venv/bin/python" -m pip --disable-pip-version-check --quiet install \
    "jax==$version" "jaxlib==$version" "jax-cuda13-plugin==$version" "jax-cuda13-pjrt==$version" \
    "nvidia-cuda-nvcc==13.5.37"
echo "$wanted" >"$stamp"
