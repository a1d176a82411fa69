#!/bin/sh
# Every matrix unit that fused_mma knows, emulated: random calls with -D MATRIX changed in a copy of the kernels, so
# that the loads, the order of keys and the row and column of each register are tested for units that
# are not here; then calls that must agree, for the first. CLATTN_TEST_UNIT_COUNT: calls for each unit (12 where
# not set), six a program.
set -eu
: "${builddir:=.}" "${srcdir:=.}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# count NAME PROGRAM ARGUMENT...: runs a test program in both types, and adds its counts.
count() {
    name=$1 program=$2
    shift 2
    "$builddir/tests/$program" --strategy fused_mma --type float16,bfloat16 "$@" >"$work/out" 2>&1 || true
    echo "$name: $(tail -n 1 "$work/out")"
    counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p' "$work/out" | tail -n 1)
    grep -A 3 '^FAIL' "$work/out" | head -n 20
    counts=${counts:-0 1}
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    [ "${counts% *}" != 0 ] || failed=$((failed + 1))
}

units=$(sed -n 's/^#define \(CLATTN_MATRIX_[A-Z0-9_]*\) [0-9].*/\1/p' "$srcdir/cl/matrix_units.h")
for unit in $units; do
    rm -rf "$work/cl"
    mkdir "$work/cl"
    cp "$srcdir"/cl/* "$work/cl/"
    sed "s/^#include \"matrix_units.h\"\$/&\\
#undef MATRIX\\
#define MATRIX $unit/" "$srcdir/cl/matrix.clh" >"$work/matrix.clh"
    mv -f "$work/matrix.clh" "$work/cl/matrix.clh"
    grep -q "^#define MATRIX $unit\$" "$work/cl/matrix.clh" || {
        echo "$unit: the line to change is no longer in cl/matrix.clh"
        failed=$((failed + 1))
        continue
    }
    CLATTN_CL_DIR=$work/cl count "$unit" random_calls --seed "${CLATTN_TEST_SEED:-1}" \
        --count "${CLATTN_TEST_UNIT_COUNT:-12}" --same 6 --work 60000
done
count "two calls that must agree" metamorphic
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
