#!/bin/sh
# Random calls whose queries, keys, values and outputs have types of their own, on every strategy, then with keys and
# values of 8-bit and block types, and in rings, on those that take them; what one declines is not counted. A failure
# prints the command that repeats it. CLATTN_TEST_MIXED_COUNT: how many of each (36 where not set).
set -eu
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
wanted=${CLATTN_TEST_MIXED_COUNT:-36}
calls() {
    must_pass "$@" --type float32,float16,bfloat16 --seed "${CLATTN_TEST_SEED:-1}" --count "$wanted" \
        --same 12 --work 300000
}
random=$builddir/tests/random_calls
calls "types apart" "$random" --strategy all --mixed 1
calls "codes and rings" "$random" --strategy all,-auto,-staged,-fused_amx,-fused_mma,-fused_wgmma --codes 1
finish
