#!/bin/sh
# Make sure that the servers which the tests start are installed. As root, or with sudo in CI, install what is missing;
# otherwise name the line to run and end with 1. Nothing is started here: the tests run private servers.
set -eu

missing=""
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null || missing="$missing rabbitmq-server"
command -v redis-server >/dev/null || missing="$missing redis-server"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=""
elif [ -n "${CI:-}" ] && command -v sudo >/dev/null; then
    sudo="sudo -n env DEBIAN_FRONTEND=noninteractive"
else
    echo "The tests need$missing. Install with: sudo apt-get install -y$missing" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086  # both hold several words
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
