#!/bin/sh
# Every OpenCL call and every allocation fails once, as in tests/robust/faults, while programs come from the
# cache on disk and go into it. Run by make check, or with builddir set.
set -eu
: "${builddir:=.}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CLATTN_CACHE=on CLATTN_CACHE_DIR=$work/cache CLATTN_TEST_STRATEGIES=plain "$builddir/tests/robust/faults"
[ -n "$(ls "$work/cache")" ] || { echo "FAILED: nothing was cached"; exit 1; }
