#!/bin/sh
# Random calls whose queries, keys, values and outputs have types of their own, on every strategy; what one declines
# is not counted. A failure prints the command that repeats it. CLATTN_TEST_MIXED_COUNT: how many (64 where not set).
set -eu
: "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
count=${CLATTN_TEST_MIXED_COUNT:-64}
exec "$builddir/tests/random_calls" --strategy all \
    --type float32,float16,bfloat16 --mixed 1 --seed "${CLATTN_TEST_SEED:-1}" --count "$count" --same 8 --work 300000
