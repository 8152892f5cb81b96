#!/bin/bash
# Print the path of a Python >= 3.12 that can make environments; exit 1 with a message when there is none.
set -eu

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

candidates=()
for name in python3 python3.12 python3.13 python3.14 python; do
    while IFS= read -r path; do
        candidates+=("$path")
    done < <(type -aP "$name" || true)
done
for path in "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}"/versions/3.*/bin/python3; do
    candidates+=("$path")
done

for path in "${candidates[@]}"; do
    if [ -x "$path" ] && usable "$path"; then
        # A pyenv shim is a script that changes its mind with the folder; the interpreter behind it does not.
        "$path" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))'
        exit 0
    fi
done

echo "andes-jax needs Python 3.12 or newer with the venv module (Debian and Ubuntu: the package python3-venv);" \
    "none was found in PATH or in ~/.pyenv/versions." >&2
exit 1
