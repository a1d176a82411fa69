#!/bin/sh
# The cases in 16-bit types, by the error bound and by R, on the strategies that compile for each problem.
# CLATTN_TEST_CASES_CHOOSE: which cases, "cover" where not set: those that stand for all (support/case_cover.h). With
# "all" the first run compiles for about seven minutes. units/amx.sh has those of fused_amx.
set -eu
: "${builddir:=.}" "${srcdir:=$(dirname "$0")/..}"
export srcdir
exec "$builddir/tests/case_calls" --strategy fused_simd,fused_simt,split,fused_mma \
    --choose "${CLATTN_TEST_CASES_CHOOSE:-cover}"
