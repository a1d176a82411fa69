#!/bin/sh
# Makes ./configure out of configure.ac. Needs autoconf, automake, libtool and pkg-config.
set -eu
cd "$(dirname "$0")"
mkdir -p build-aux
exec autoreconf --install --force --warnings=all "$@"
