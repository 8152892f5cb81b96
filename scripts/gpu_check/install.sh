#!/bin/bash
# install.sh VENV PYTHON: print the interpreter that checks the GPU: PYTHON itself where its jax sees a GPU, else that of
# VENV, made or updated with jax of the same version and all that it needs for CUDA.
set -eu

venv=$1
python=$2
cd "$(dirname "$0")/../.."
. scripts/environment.sh

if "$python" -c 'import jax, sys; sys.exit(not any(d.platform == "gpu" for d in jax.devices()))' 2>/dev/null; then
    echo "$python"
    exit 0
fi

# begin_install leaves the script where VENV is up to date already.
(
    version=$("$python" -c 'import jax; print(jax.__version__)')
    flax=$("$python" -c 'import flax; print(flax.__version__)')
    wanted=$(cat scripts/gpu_check/install.sh scripts/environment.sh | cksum; echo "$version $flax")
    begin_install "$venv" "$wanted"
    install_with_pip "$venv" "jax[cuda13]==$version" "flax==$flax"
    end_install "$venv" "$wanted"
) >&2
echo "$venv/bin/python"
