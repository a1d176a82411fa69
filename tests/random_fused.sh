#!/bin/sh
# Random calls on the strategies that compile for each problem, several calls a program. A failure prints
# the command that repeats it. CLATTN_TEST_COUNT: how many calls (320 where not set).
set -eu
: "${builddir:=.}"
count=${CLATTN_TEST_COUNT:-320}
exec "$builddir/tests/random_calls" --strategy fused_simd,fused_simt,split,auto \
    --seed "${CLATTN_TEST_SEED:-1}" --count "$count" --same 8
