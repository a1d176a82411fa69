#!/bin/sh
# Every strategy's kernels on small samples of every class of features under Oclgrind, which interprets
# them: data races, accesses outside of buffers, wrong API use. Its exit status says nothing; its log must
# be empty. First a race is planted, which it must find, or this test proves nothing.
#
# Oclgrind is used through its ICD: its command corrupts the heap when CLBlast is in the process. Kernels
# are not optimized: its interpreter lacks some functions that the optimizer makes. Run by make check, or
# with builddir and srcdir set. CLATTN_TEST_STRATEGIES: as for probe.
set -eu
: "${builddir:=.}" "${srcdir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

find_oclgrind() {
    for library in /usr/lib/oclgrind/liboclgrind-rt-icd.so /usr/lib/*/oclgrind/liboclgrind-rt-icd.so \
        /usr/local/lib/liboclgrind-rt-icd.so /usr/lib/liboclgrind-rt-icd.so /usr/lib64/liboclgrind-rt-icd.so; do
        [ ! -f "$library" ] || { echo "$library"; return; }
    done
}

# under_oclgrind LOG COMMAND...
under_oclgrind() {
    log=$1
    shift
    : >"$log"
    OCL_ICD_VENDORS=$oclgrind OCLGRIND_LOG=$log OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 \
        OCLGRIND_BUILD_OPTIONS='-cl-opt-disable -D RACES_WATCHED' OCLGRIND_MAX_ERRORS=20 "$@"
}

check() { # STATUS WHAT
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $2"
    fi
}

oclgrind=$(find_oclgrind)
if [ -z "$oclgrind" ]; then
    skipped=1
    echo "no Oclgrind here"
    finish
fi
probe=$builddir/tests/emulated/probe

# The test of the test: all work-items write one place.
cp -R "$srcdir/cl" "$work/cl"
chmod -R u+w "$work/cl"
sed 's/^    const clattn_merge_params \*p = &params;$/&\n    merged_lse[0] = (float)get_global_id(0);/' \
    "$srcdir/cl/layers/merge.cl" >"$work/merge.cl"
if cmp -s "$srcdir/cl/layers/merge.cl" "$work/merge.cl"; then
    check 1 "the line to plant a race behind is no longer in cl/layers/merge.cl"
fi
mv -f "$work/merge.cl" "$work/cl/layers/merge.cl"
CLATTN_CL_DIR=$work/cl under_oclgrind "$work/planted" "$probe" --merge >"$work/planted.out" 2>&1 || true
if grep -qi 'race' "$work/planted"; then check 0; else
    check 1 "Oclgrind did not report a planted race"
    cat "$work/planted.out"
fi

# visit NAME COMMAND...: the command succeeds and leaves the log empty.
visit() {
    visited=$1 status=0
    shift
    under_oclgrind "$work/log" "$@" >"$work/out" 2>&1 || status=1
    if [ "$status" != 0 ]; then grep -v '^CLBlast\|^skipped' "$work/out" || true; fi
    check "$status" "$visited: a call failed"
    tail -n 1 "$work/out"
    if [ -s "$work/log" ]; then
        head -n 60 "$work/log"
        check 1 "$visited: Oclgrind reported what stands above"
    else
        check 0
    fi
}

visit "samples" "$probe" --small
for layer in mha additive; do
    visit "layer $layer" env CLATTN_TEST_LAYER_CALLS=6 "$builddir/tests/layers/$layer"
done
visit "gradients" "$builddir/tests/gradients/random_gradients" --count 2 --work 500 --type float32
# By its smallest tile: the others are the same kernels, and take minutes.
visit "gradients, fused_simt" env OCLGRIND_MAX_WGSIZE=16 "$builddir/tests/gradients/random_gradients" --count 4 \
    --strategy fused_simt --work 1500 --type float32
# fused_mma fetches keys before it knows of any; "$probe" has no pages.
visit "pages without keys" "$builddir/clattn" bench --shape 1,2,1,3,0,8 --page-size 2 --dtype f16 --seconds 0 \
    --strategy fused_mma
visit "codes, split_simt" "$builddir/clattn" bench --shape 1,4,2,2,130,64 --key-type q5_1 --value-type int8 \
    --seconds 0 --strategy split_simt
# Loads of four codes at once from places that are not aligned: CPUs carry them out, GPUs need not.
visit "codes at odd places" "$builddir/tests/random_calls" --strategy split_simt --type float32 --seed 3 --count 12 \
    --work 3000 --codes 1 --with int8
# Where functions are inlined by force, LLVM leaves marks that Oclgrind does not know: append's are calls here.
cp -R "$srcdir/cl" "$work/calls"
chmod -R u+w "$work/calls"
sed 's/^#define INLINE .*/#define INLINE static inline/' "$srcdir/cl/common/types.clh" >"$work/types.clh"
if cmp -s "$srcdir/cl/common/types.clh" "$work/types.clh"; then
    check 1 "cl/common/types.clh has no INLINE to take the force from"
fi
mv -f "$work/types.clh" "$work/calls/common/types.clh"
visit "append, rotary, stored types" env CLATTN_CL_DIR="$work/calls" "$builddir/tests/api/append"
visit "8 KiB of local memory" env OCLGRIND_LOCAL_MEM_SIZE=8192 "$probe" --few
finish
