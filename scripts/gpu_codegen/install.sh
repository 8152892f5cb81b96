#!/bin/bash
# install.sh VENV VERSION: make or update VENV with jax of VERSION and what compiles for NVIDIA GPUs without one:
# the CUDA plugin of the same version, ptxas with libdevice, and what the decoder is written with. About 200 MB; no
# driver and no CUDA runtime.
set -eu

venv=$1
version=$2
cd "$(dirname "$0")/../.."
. scripts/environment.sh

wanted=$(cat scripts/gpu_codegen/install.sh scripts/environment.sh | cksum; echo "$version")
begin_install "$venv" "$wanted"
install_with_pip "$venv" \
    "jax==$version" "jaxlib==$version" "jax-cuda13-plugin==$version" "jax-cuda13-pjrt==$version" \
    "nvidia-cuda-nvcc==13.5.37" "flax>=0.12,<0.13"
end_install "$venv" "$wanted"
