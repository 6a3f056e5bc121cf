#!/bin/sh
# Print the path of the Python to build an environment with: the first of the names given as arguments that runs, is
# 3.11 or newer and has venv with pip. Without one, say what is wrong and what installs it, and end with 1.
# A name is looked for in PATH and then among pyenv's versions; a pyenv shim without its version is passed over.
set -u

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

candidates() {
    command -v "$1" 2>/dev/null
    for found in "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}"/versions/"${1#python}"*/bin/python3; do
        [ -x "$found" ] && [ "$1" != python3 ] && echo "$found"
    done
}

for name in "$@"; do
    for python in $(candidates "$name"); do
        if usable "$python"; then
            echo "$python"
            exit 0
        fi
    done
done

{
    echo "Slicelease needs Python 3.11 or newer with its venv module. Tried: $*"
    if command -v python3 >/dev/null 2>&1; then
        echo "python3 here is $(python3 --version 2>&1); Debian's and Ubuntu's comes without venv."
    fi
    echo "Install it with: sudo apt-get install -y python3-venv"
} >&2
exit 1
