#!/bin/sh
# Installs the programs of others that `make test-clients` speaks to the server with, where they are missing (Debian).
set -e
missing=""
command -v curl >/dev/null || missing="$missing curl"
command -v h2load >/dev/null || missing="$missing nghttp2-client"
command -v chromium >/dev/null || missing="$missing chromium"
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "install these first:$missing" >&2
    exit 1
fi
apt-get install -y -q $missing
