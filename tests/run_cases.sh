#!/bin/sh
# usage: tests/run_cases.sh [STRATEGY...]
#
# Computes all cases of tests/cases with each strategy (default: the library's table, reference and auto) and has
# check.py judge every output, gradients and sums of weights where a strategy has any. plain, reference and auto take
# every case, staged all but pages, codes and lists of keys; what another strategy declines is skipped. Strategies that
# compile for each problem compute the cases that stand for all, those for GPUs the fewest of them: of a CPU's, auto has
# all.
# CLATTN_TEST_LONG: all; CLATTN_TEST_CHOOSE=cover: the others those that stand for all too. In make check, auto has
# the cases that stand for all as users get them, and the rest, as all others, by its quick layer, which compiles some
# programs without optimising (tests/icd/quick_layer.c). The last line is "N passed, N failed, N skipped" over all
# strategies. srcdir and builddir say where the sources and tests/solve_cases are (default: here).
set -u
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
# It plans all of them, whose programs need no optimising.
here=$(QUICK_LAYER_ALL=1 "$builddir/tests/emulated/probe" --here | paste -s -d ' ' -)
quick=''
case ${OPENCL_LAYERS:-} in
*/quick_layer.so*) quick=yes && export QUICK_LAYER_NONE=1 ;; # as users get them, where compute is not told otherwise
esac
cases=$srcdir/tests/cases
# shellcheck disable=SC2046 # one word a strategy
[ $# -gt 0 ] || set -- reference auto $("$builddir/tests/emulated/probe" --strategies | grep -v /)
gradients=$("$builddir/tests/emulated/probe" --gradients | paste -s -d ' ' -)
sums=$("$builddir/tests/emulated/probe" --key-sums | paste -s -d ' ' -)
python=$(command -v python3) || {
    echo "run_cases: needs python3"
    echo "0 passed, 0 failed, $(find "$cases" -name meta.json | wc -l) skipped"
    exit 77
}
produced=$(mktemp -d)
trap 'rm -rf "$produced"' EXIT
passed=0 failed=0 skipped=0
# compute CHOOSE [VARIABLE]: those cases by $strategy, as users get its kernels; with a VARIABLE, which says what the
# layer takes, by that, where there is one.
compute() {
    if [ -n "${2:-}" ] && [ -n "$quick" ]; then
        set -- "$1" -u QUICK_LAYER_NONE "$2=1"
    else
        set -- "$1"
    fi
    chosen=$1
    shift
    env "$@" "$builddir/tests/solve_cases" "$cases" "$produced/$strategy" --strategy "$strategy" --choose "$chosen" || {
        echo "FAIL $strategy: solve_cases ended with status $?"
        failed=$((failed + 1))
    }
}

# judge CHOOSE: counts what was computed of those cases. Other operations than attention have no strategy of its names.
judge() {
    needed=out,lse,present_key,present_value,qk_matmul_output,key_quantised,value_quantised
    case $strategy in
    reference | auto) missing='' ;;
    plain) missing='--op attention,backward' ;;
    staged) missing='--op attention,backward --not-tag paged --not-tag quantised --not-tag key_lists' ;;
    *) missing='--op attention,backward --skip-missing' ;;
    esac
    case " reference auto $gradients " in
    *" $strategy "*) needed=$needed,dq,dk,dv,dbias,dslopes,dsinks ;;
    esac
    case " reference auto $sums " in
    *" $strategy "*) needed=$needed,key_sums,max_logit ;;
    esac
    [ "$1" = all ] || missing="$missing --skip-missing"
    # shellcheck disable=SC2086 # options, or nothing
    judged=$("$python" "$cases/check.py" "$cases" "$produced/$strategy" --failures $missing \
        --need "$needed")
    echo "$judged" | grep '^FAIL'
    counts=$(echo "$judged" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*$/\1 \2/p')
    [ -n "$counts" ] || {
        echo "run_cases: check.py did not end as it should"
        counts="0 1"
    }
    declined=$(echo "$judged" | sed -n 's/^.* failed, \([0-9]*\) skipped.*$/\1/p')
    echo "$strategy: ${counts% *} passed, ${counts#* } failed, ${declined:=0} declined"
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    skipped=$((skipped + declined))
    case " reference auto $here " in
    *" $strategy "*) [ "${counts% *}" != 0 ] || { echo "FAIL $strategy: computed no case"; failed=$((failed + 1)); } ;;
    esac
}

wanted=${CLATTN_TEST_CHOOSE:-all} cover=cover few=few
[ -z "${CLATTN_TEST_LONG:-}" ] || cover=$wanted few=$wanted quick=''
for strategy; do
    rm -rf "${produced:?}/$strategy"
    case $strategy in
    reference) compute "$wanted"; judge "$wanted" ;;
    auto)
        case $quick,$wanted in
        ?*,all) compute cover; compute rest QUICK_LAYER_ALL ;;
        *) compute "$wanted" ;;
        esac
        judge "$wanted"
        ;;
    fused_simd | split | fused_amx) compute "$cover" QUICK_LAYER_MOST; judge "$cover" ;;
    *_simt | *_mma) compute "$few" QUICK_LAYER_ALL; judge "$few" ;;
    *) compute "$wanted" QUICK_LAYER_MOST; judge "$wanted" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
