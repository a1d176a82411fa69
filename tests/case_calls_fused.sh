#!/bin/sh
# The cases in 16-bit types, by the error bound and by R, on the strategies that compile for each problem.
# CLATTN_TEST_CASES_EVERY: one of so many cases (24 where not set; with 1, all of them, the first run compiles for
# about seven minutes). units/amx.sh has those of fused_amx.
set -eu
: "${builddir:=.}" "${srcdir:=$(dirname "$0")/..}"
export srcdir
exec "$builddir/tests/case_calls" --strategy fused_simd,fused_simt,split,fused_mma \
    --every "${CLATTN_TEST_CASES_EVERY:-24}"
