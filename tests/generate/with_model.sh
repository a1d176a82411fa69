#!/bin/sh
# The engine of examples/generate on a real model, which is fetched where it can be had; else a counted skip. A step of
# ./check. Last line: N passed, N failed, N skipped.
# usage: builddir=BUILD with_model.sh [--no-install]     --no-install: with a model that is there already
set -eu
here=$(cd "$(dirname "$0")" && pwd)
status=0
kept=''
[ "${1:-}" != --no-install ] || kept=--kept
# shellcheck disable=SC2086 # an option or nothing
model=$("$here/../../examples/generate/fetch_model.sh" $kept) || status=$?
if [ "$status" = 77 ]; then
    echo "$model"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
elif [ "$status" != 0 ]; then
    echo "examples/generate/fetch_model.sh failed: $model"
    exit 1
fi
exec python3 "$here/run" "${builddir:-.}/examples/generate/generate" "$model"
