#!/bin/sh
# make_venv.sh FOLDER PYTHON...: make (or bring up to date) an environment with Slicelease, all extras and the tools.
# PYTHON are names to try, see find_python.sh. The stamp FOLDER/.installed tells make that there is nothing to do.
set -eu

folder=$1
shift
if [ ! -x "$folder/bin/python" ]; then
    python=$("$(dirname "$0")/find_python.sh" "$@")
    "$python" -m venv "$folder"
fi
echo "installing Slicelease and its tools into $folder; the first time takes a minute or two" >&2
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 -e '.[dev]'
touch "$folder/.installed"
