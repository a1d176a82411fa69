#!/bin/sh
# usage: tests/sum_cases.sh [STRATEGY...]
#
# The cases of hard sums (tests/sum_cases: equal terms, alternating signs, one large and many small, rising and falling,
# a maximum that creeps, up to 200,000 keys or rows): the reference is held to 8 u, strategies (default: all of float32)
# to 16 times that, and to 32 times where runs of 512 keys are summed one after the other. Gradients of strategies that
# have any. The last line is "N passed, N failed, N skipped". srcdir and builddir: as in run_cases.sh.
set -eu
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
[ $# -gt 0 ] || set -- reference plain staged fused_simd split fused_simt split_simt
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
cases=$srcdir/tests/sum_cases
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gradients=$("$builddir/tests/emulated/probe" --gradients | paste -s -d ' ' -)
python3 "$cases/expand.py" expand "$cases" "$work/cases"

# judge STRATEGY FACTOR: its results, by the goldens' tolerance times so much.
# shellcheck disable=SC2317 # called by must_pass
judge() {
    needed=out,lse,out_rows,lse_rows
    case " reference $gradients " in
    *" $1 "*) needed=$needed,dq,dk,dv,dq_rows,dk_keys,dv_keys ;;
    esac
    "$builddir/tests/solve_cases" "$work/cases" "$work/$1" --strategy "$1" >"$work/log" 2>&1 || {
        tail -n 5 "$work/log"
        echo "0 passed, 1 failed, 0 skipped"
        return
    }
    python3 "$cases/expand.py" sample "$cases" "$work/$1"
    # The file of outputs that are asked for is there or not; --need alone says which of them must be.
    python3 "$srcdir/tests/cases/check.py" "$cases" "$work/$1" --failures --skip-missing --tol-scale "$2" \
        --need "$needed" | sed 's/ failed$/ failed, 0 skipped/'
    rm -rf "${work:?}/$1"
}

for strategy; do
    case $strategy in
    reference) factor=1 ;;
    *_simt) factor=32 ;;
    *) factor=16 ;;
    esac
    must_pass "$strategy, $((8 * factor)) u" judge "$strategy" "$factor"
done
finish
