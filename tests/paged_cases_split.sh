#!/bin/sh
# The cases in pages on the strategies that compile for each problem: those that stand for all
# (tests/support/case_cover.h) on split. CLATTN_TEST_LONG, which ./check --long sets: all, and fused_simd.
set -eu
: "${builddir:=.}" "${srcdir:=$(dirname "$0")/..}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
export srcdir
if [ -n "${CLATTN_TEST_LONG:-}" ]; then
    exec "$builddir/tests/paged_cases" --strategy split,fused_simd
fi
exec "$builddir/tests/paged_cases" --strategy split --choose cover
