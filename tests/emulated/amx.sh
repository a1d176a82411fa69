#!/bin/sh
# fused_amx with its real instructions: on a CPU with AMX, or on any x86-64 Linux with AVX-512, where
# amx_emulator.so is preloaded and carries them out as they trap. Random calls, exact results, all cases, and
# gradients; before them the instructions themselves against plain arithmetic. Run by make check, or with builddir and
# srcdir set. CLATTN_TEST_LONG, which ./check --long sets: all cases in 16 bits too, else those that stand for all; and
# emulated gradients whose kernels are optimised (tests/icd/quick_layer.c).
set -eu
: "${builddir:=.}" "${srcdir:=$(dirname "$0")/../..}"
export builddir srcdir
tests=$builddir/tests
# shellcheck source=tests/emulated/tiles.sh
. "$srcdir/tests/emulated/tiles.sh"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"

preload_tiles || {
    echo "no AMX and no $preload"
    skipped=1
    finish
}
count instructions with_tiles "$tests/emulated/amx_instructions"
[ "$passed" != 0 ] || finish # not a machine for it
refused=$(with_tiles "$builddir/clattn" explain --shape 1,1,1,64,64,64 --dtype bf16 --strategy fused_amx 2>&1) || {
    echo "the default device has no tiles: $refused" | tail -n 3
    case $refused in
    *"for CPU devices"*) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
    finish
}
# Every eighth is a program that is compiled.
count "random calls" with_tiles "$tests/random_calls" --strategy fused_amx --type bfloat16,float16 --seed 11 \
    --count "${CLATTN_TEST_COUNT:-48}" --same 8 --work 2000000
count "exact results" with_tiles "$tests/exact" --strategy fused_amx
# Not float16: it sums blocks in another order where a hidden key or value is not finite.
count "two calls that must agree" with_tiles "$tests/metamorphic" --strategy fused_amx --type bfloat16
choose=few
[ -z "${CLATTN_TEST_LONG:-}" ] || choose=all
count "cases in 16 bits" with_tiles "$tests/case_calls" --strategy fused_amx --choose "$choose"
count "cases" with_tiles "$srcdir/tests/run_cases.sh" fused_amx
# Where their instructions trap, compiling the kernels of gradients well takes most of the time.
[ -z "$preload" ] || [ -n "${CLATTN_TEST_LONG:-}" ] || export QUICK_LAYER_ALL=1
count "gradients" with_tiles "$tests/gradients/random_gradients" --strategy fused_amx --type bfloat16,float16 \
    --seed 5 --count "${CLATTN_TEST_GRADIENT_COUNT:-16}" --work 300000
count "exact gradients" with_tiles "$tests/gradients/exact_gradients" --strategy fused_amx
finish
