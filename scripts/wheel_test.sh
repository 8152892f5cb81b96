#!/bin/bash
# wheel_test.sh PYTHON: build the wheel, unpack it with pip into a fresh environment, and use it from an empty folder.
# The environment sees the packages PYTHON has, so that only andes-jax itself is installed.
set -eu

python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A copy, because a build leaves files behind and another build may be running here.
mkdir "$scratch/source"
cp -r pyproject.toml setup.py README.md LICENSE andes_jax kernels_pallas server configs "$scratch/source"
"$python" -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir "$scratch" "$scratch/source"

"$python" -m venv --without-pip "$scratch/venv"
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -m pip --disable-pip-version-check --quiet --python "$scratch/venv/bin/python" \
    install --no-deps --no-index "$scratch"/andes_jax-*.whl
"$scratch/venv/bin/python" - "$packages" <<'PYTHON'
import pathlib, sys, sysconfig
# A plain path: .pth files inside it (an editable andes-jax) are not followed, so the wheel is what gets imported.
pathlib.Path(sysconfig.get_path("purelib"), "others.pth").write_text(sys.argv[1] + "\n")
PYTHON

installed=$("$scratch/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
missing=$(cd "$scratch/source" && find andes_jax kernels_pallas server -type f ! -path '*/__pycache__/*' |
    while IFS= read -r file; do [ -e "$installed/$file" ] || echo "$file"; done)
[ -z "$missing" ] || { echo "the wheel lacks: $missing" >&2 && exit 1; }

mkdir "$scratch/empty"
cd "$scratch/empty"
"$scratch/venv/bin/andes-jax" --version
"$scratch/venv/bin/andes-jax" serve --help >/dev/null
where=$("$scratch/venv/bin/python" -c 'import andes_jax, andes_jax.config as c; c.load_config(environ={}); print(andes_jax.__file__)')
case $where in
"$scratch"/*) ;;
*) echo "the wheel was not what was imported: $where" >&2 && exit 1 ;;
esac
"$scratch/venv/bin/andes-jax" check
[ -z "$(ls -A)" ] || { echo "andes-jax left files in the folder it was started from" >&2 && exit 1; }
echo "wheel: works from an empty folder"
