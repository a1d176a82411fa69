#!/bin/sh
# The cases in 16-bit types, by the error bound and by R, on the strategies that compile for each problem: the few that
# have every feature (tests/support/case_cover.h), since all of them make PoCL compile 336 programs, for eight minutes,
# and run_cases.sh has the same kernels with float32's loads and stores. CLATTN_TEST_LONG, which ./check --long sets:
# all. emulated/amx.sh has those of fused_amx.
set -eu
: "${builddir:=.}" "${srcdir:=$(dirname "$0")/..}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
export srcdir
choose=few
[ -z "${CLATTN_TEST_LONG:-}" ] || choose=all
exec "$builddir/tests/case_calls" --strategy all,-plain,-staged,-fused_amx,-fused_wgmma,-auto --choose "$choose"
