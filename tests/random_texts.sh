#!/bin/sh
# Random calls and gradients of problems with a text of the user's own (tests/support/user_codes.c), on the strategies
# for CPUs, and of random texts (tests/support/grammar_texts.c). A failure prints the command that repeats it.
# CLATTN_TEST_TEXT_COUNT: how many of each of the first; where not set 12, each text once, and with CLATTN_TEST_LONG 48,
# once in each type.
set -eu
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
[ -z "${CLATTN_TEST_LONG:-}" ] || : "${CLATTN_TEST_TEXT_COUNT:=48}"
wanted=${CLATTN_TEST_TEXT_COUNT:-12}
calls() {
    must_pass "$@" --code any --seed "${CLATTN_TEST_SEED:-1}" --count "$wanted"
}
calls "calls with texts" "$builddir/tests/random_calls" --strategy plain,staged,fused_simd,split --work 300000
[ -z "${CLATTN_TEST_LONG:-}" ] ||
    calls "calls with texts, matrix units" "$builddir/tests/random_calls" --strategy fused_mma,fused_wgmma \
        --type float16,bfloat16 --work 100000
[ -z "${CLATTN_TEST_LONG:-}" ] ||
    calls "calls with texts, GPUs without matrix units" "$builddir/tests/random_calls" \
        --strategy fused_simt,split_simt --work 60000
calls "gradients with texts" "$builddir/tests/gradients/random_gradients" --strategy plain,fused_simd --work 100000
[ -z "${CLATTN_TEST_LONG:-}" ] ||
    calls "gradients with texts, fused_simt" "$builddir/tests/gradients/random_gradients" --strategy fused_simt \
        --type float32 --work 40000
[ -z "${CLATTN_TEST_LONG:-}" ] ||
    calls "gradients with texts, matrix units" "$builddir/tests/gradients/random_gradients" \
        --strategy fused_mma,fused_wgmma --type float16,bfloat16 --work 40000
random=2 # of 500 texts
[ -z "${CLATTN_TEST_LONG:-}" ] || random=500
# shellcheck disable=SC2317 # called by must_pass
quick() {
    QUICK_LAYER_ALL=1 "$@"
}
must_pass "calls with random texts" quick "$builddir/tests/random_calls" --strategy plain,fused_simd --work 100000 \
    --code grammar --seed "${CLATTN_TEST_SEED:-1}" --count "$random"
must_pass "gradients with random texts" quick "$builddir/tests/gradients/random_gradients" \
    --strategy plain,fused_simd --work 60000 --code grammar --seed "${CLATTN_TEST_SEED:-1}" --count "$random"
finish
