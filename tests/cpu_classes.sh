#!/bin/sh
# usage: tests/cpu_classes.sh [CLASS...]
#
# The tests of numbers, as if this x86 CPU had fewer instructions: PoCL compiles for SSE2, for AVX2, for AVX-512, each
# with tiles of its own. Default: those below what it takes here, which all other tests have. What PoCL took, the
# ladder's answers must show. One type and few problems, of which tests/short.txt says how they are compiled;
# CLATTN_TEST_LONG: all, and calls that must agree. srcdir and builddir say where the
# sources and the programs are. The last line is "N passed, N failed, N skipped".
set -u
: "${srcdir:=$(dirname "$0")/..}" "${builddir:=.}" "${POCL_CACHE_DIR:=$builddir/pocl-cache}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
export srcdir
kernel_cache=$POCL_CACHE_DIR
said=$(mktemp)
new_cache=$(mktemp -d)
trap 'rm -rf "$said" "$new_cache"' EXIT
passed=0 failed=0 skipped=0
count=36 types=float32 layers=24
[ -z "${CLATTN_TEST_LONG:-}" ] || count=1000 types=float32,float16,bfloat16 layers=160

# limit_to CLASS: what PoCL compiles for, with a kernel cache of its own; and which rungs it must then have.
limit_to() {
    case $1 in
    sse2) POCL_KERNELLIB_NAME=sse2 POCL_LLVM_CPU_NAME=x86-64 avx2=no avx512=no ;;
    avx2) POCL_KERNELLIB_NAME=avx2 POCL_LLVM_CPU_NAME=haswell avx2=yes avx512=no ;;
    avx512) POCL_KERNELLIB_NAME=avx512 POCL_LLVM_CPU_NAME=skylake-avx512 avx2=yes avx512=yes ;;
    *) echo "cpu_classes: there are sse2, avx2, avx512, not $1" >&2 && exit 2 ;;
    esac
    POCL_CACHE_DIR=$kernel_cache/$1
    export POCL_KERNELLIB_NAME POCL_LLVM_CPU_NAME POCL_CACHE_DIR
    mkdir -p "$POCL_CACHE_DIR"
}

# rung NAME: "yes" or "no", as `clattn devices` has it.
rung() {
    sed -n "s/^ *$1 (.*): \(yes\|no\).*/\1/p" "$said" | head -n 1
}

# expect_nothing WHAT FILE: it is empty.
expect_nothing() {
    if [ ! -s "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1 printed:"
        head -n 3 "$2"
    fi
    rm -rf "$new_cache"
    mkdir "$new_cache"
}

# count_run WHAT COMMAND...: a test program, whose last line counts.
count_run() {
    what=$1
    shift
    "$@" >"$said" 2>&1 || failed=$((failed + 1))
    counts=$(tail -n 1 "$said" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    # shellcheck disable=SC2086 # three words
    set -- ${counts:-0 1 0}
    echo "$class, $what: $1 passed, $2 failed, $3 skipped"
    [ "$2" = 0 ] || grep -A 2 '^FAIL\|^failed' "$said"
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

test_class() {
    limit_to "$class"
    "$builddir/clattn" devices >"$said" 2>&1
    if [ "$(rung avx2) $(rung avx512)" = "$avx2 $avx512" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $class: clattn devices says avx2 $(rung avx2), avx512 $(rung avx512)"
    fi
    POCL_CACHE_DIR=$new_cache "$builddir/clattn" bench --shape 1,1,1,32,32,16 --seconds 0.01 2>"$said" >/dev/null
    expect_nothing "$class: the first compilation" "$said"
    strategies=all,-gpus,-auto,-plain,-fused_amx # whose vectors are another class's
    count_run cases "$builddir/tests/case_calls" --strategy "$strategies" --choose few
    count_run "random calls" "$builddir/tests/random_calls" --strategy "$strategies" --count "$count" --same 12
    count_run "multi-head layers" env CLATTN_TEST_LAYER_CALLS="$layers" "$builddir/tests/layers/mha"
    # Bits of two programs are compared, which must be compiled alike.
    [ -n "${CLATTN_TEST_LONG:-}" ] || export QUICK_LAYER_ALL=1
    count_run exact "$builddir/tests/exact" --strategy "$strategies,-staged" --type "$types"
    [ -z "${CLATTN_TEST_LONG:-}" ] ||
        count_run metamorphic "$builddir/tests/metamorphic" --strategy "$strategies,-staged" --type "$types"
    unset QUICK_LAYER_ALL
}

"$builddir/clattn" devices >"$said" 2>&1
if ! grep -q 'Portable Computing Language.*x86_64' "$said"; then
    echo "skipped: no PoCL on an x86 CPU"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
fi
if [ $# -eq 0 ]; then
    [ "$(rung avx2)" = no ] || set -- sse2
    [ "$(rung avx512)" = no ] || set -- sse2 avx2
fi
if [ $# -eq 0 ]; then
    echo "skipped: there is no class below what PoCL compiles for here"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
fi
for class; do
    test_class
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
