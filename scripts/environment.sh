# environment.sh: what scripts that install into an environment have in common. To be sourced in the project's folder.

# begin_install VENV WANTED: wait until nobody else installs into VENV; leave the script where WANTED is there already;
# else see that VENV has an interpreter that is new enough.
begin_install() {
    local venv=$1 wanted=$2 stamp="$1/.installed" python

    # Two makes at once would install over each other.
    exec 9>".install-$(basename "$venv").lock"
    if command -v flock >/dev/null; then
        flock 9
    fi

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
}

# install_with_pip VENV ARGUMENT...
install_with_pip() {
    local venv=$1
    shift
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install "$@"
}

# end_install VENV WANTED: all of it is there.
end_install() {
    echo "$2" >"$1/.installed"
}
