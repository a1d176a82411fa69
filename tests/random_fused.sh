#!/bin/sh
# Random calls on the strategies that compile for each problem, several calls a program: all but plain and staged,
# which random_calls has by itself, and those of emulated/amx.sh and emulated/matrix_units.sh; and fused_simd's bfloat16
# with instructions that are slow on this CPU too, which no plan would take here. A failure prints the command that
# repeats it. CLATTN_TEST_FUSED_COUNT: how many calls (96 where not set). Kernels for CPUs are those that users get, in
# make check too; kernels for GPUs with CLATTN_TEST_LONG (else tests/icd/quick_layer.c).
set -eu
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
export QUICK_LAYER_NONE=1 # but those for GPUs: tests/icd/quick_layer.c
gpus=''
[ -n "${CLATTN_TEST_LONG:-}" ] || gpus='-u QUICK_LAYER_NONE'
wanted=${CLATTN_TEST_FUSED_COUNT:-96}
calls() {
    must_pass "$@" --seed "${CLATTN_TEST_SEED:-1}" --same 12 --work 600000
}
random=$builddir/tests/random_calls
calls "as planned" "$random" --strategy all,-plain,-staged,-gpus,-fused_amx --count "$wanted"
# shellcheck disable=SC2086 # an option of env or nothing
calls "for GPUs" env $gpus "$random" --strategy fused_simt,split_simt --count "$wanted"
calls "slow units" env CLATTN_TEST_SLOW_UNITS=1 "$random" --strategy fused_simd --type bfloat16 --count $((wanted / 4))
finish
