#!/bin/sh
# usage: tests/text_cases.sh [STRATEGY...]
#
# The cases of scores and masks of the user's own (tests/text_cases: sixteen formulas, forward, backward), and of
# biases that are views of a line of numbers, where other libraries want a matrix or a text, judged by check.py: all by
# the reference's callbacks, and by each strategy (default: the library's table) those that it takes. As each case
# compiles a text, strategies have a few of them; CLATTN_TEST_LONG: all. The last line is "N passed, N failed, N
# skipped". srcdir and builddir: as in run_cases.sh.
set -eu
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
cases=$(cd "$srcdir/tests/text_cases" && pwd)
[ -n "${CLATTN_TEST_LONG:-}" ] || export QUICK_LAYER_ALL=1
# shellcheck disable=SC2046 # one word a strategy
[ $# -gt 0 ] || set -- reference $("$builddir/tests/emulated/probe" --here | grep -v /)
gradients=$("$builddir/tests/emulated/probe" --gradients | paste -s -d ' ' -)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# cases_of STRATEGY: names; where tests are short those few that together have forward and backward, scores and masks.
# shellcheck disable=SC2317 # called by judge
cases_of() {
    case $1,${CLATTN_TEST_LONG:-} in
    reference,* | *,?*) (cd "$cases" && echo J_* P_*) ;;
    plain,*) echo J_everything P_intervals_4_lens_bf16 P_factored_short_last_line P_toeplitz_t5_cache ;;
    fused_simd,*) echo J_everything J_leaky ;;
    split,*) echo J_kerple_decode P_toeplitz_t5_cache ;;
    fused_mma,*) echo P_intervals_4_lens_bf16 ;;
    esac
}

# judge STRATEGY: its results, of what it takes.
# shellcheck disable=SC2317 # called by count
judge() {
    strategy=$1
    mkdir "$work/cases"
    for name in $(cases_of "$strategy"); do
        ln -s "$cases/$name" "$work/cases/$name"
    done
    needed=out,lse
    case $strategy,$(cases_of "$strategy") in
    fused_mma,*_f16*) ;; # gradients of float16 are float32 in the cases, which it declines
    *) case " reference $gradients " in *" $strategy "*) needed=$needed,dq,dk,dv,dsinks ;; esac ;;
    esac
    "$builddir/tests/solve_cases" "$work/cases" "$work/$strategy" --strategy "$strategy" >"$work/log" 2>&1 || {
        tail -n 5 "$work/log"
        echo "0 passed, 1 failed, 0 skipped"
        return
    }
    python3 "$srcdir/tests/cases/check.py" "$work/cases" "$work/$strategy" --failures --skip-missing \
        --need "$needed" | sed 's/ failed$/ failed, 0 skipped/'
    rm -rf "${work:?}/cases" "${work:?}/$strategy"
}

for strategy; do
    [ -z "$(cases_of "$strategy")" ] || count "$strategy" judge "$strategy"
done
finish
