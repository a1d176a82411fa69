#!/bin/sh
# Random calls on the strategies that compile for each problem, several calls a program: all but plain and staged,
# which random_calls has by itself, and those of units/amx.sh and units/matrix_units.sh. A failure prints the command
# that repeats it. CLATTN_TEST_FUSED_COUNT: how many calls (160 where not set).
set -eu
: "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
count=${CLATTN_TEST_FUSED_COUNT:-160}
exec "$builddir/tests/random_calls" --strategy all,-plain,-staged,-fused_amx,-fused_mma \
    --seed "${CLATTN_TEST_SEED:-1}" --count "$count" --same 8 --work 600000
