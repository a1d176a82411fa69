#!/bin/sh
# Every matrix unit that fused_mma knows, emulated: random calls with -D MATRIX changed in a copy of the kernels, so
# that the loads, the order of keys and the row and column of each register are tested for units that are not here;
# random gradients, of the first with the self-check, which must refuse none; then gradients' properties and calls that
# must agree, for the first. CLATTN_TEST_UNIT_COUNT: calls for each unit, six a program; 12 where not set, 48 for tf32.
# CLATTN_TEST_LONG, set by ./check --long: twice as many gradients, all self-checked; calls that agree in every shape.
set -eu
: "${builddir:=.}" "${srcdir:=.}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"

# on_units NAME TYPES PROGRAM ARGUMENT...: must_pass, of a test program of fused_mma with the kernels in $kernels;
# $self_check: as CLATTN_SELF_CHECK.
self_check=
on_units() {
    name=$1 types=$2 program=$builddir/tests/$3
    shift 3
    must_pass "$name" env CLATTN_CL_DIR="$kernels" CLATTN_SELF_CHECK="$self_check" \
        "$program" --strategy fused_mma --type "$types" "$@"
}

gradients=3 checked=always
[ -z "${CLATTN_TEST_LONG:-}" ] || gradients=6
kernels=$work/cl
units=$(sed -n 's/^#define \(CLATTN_MATRIX_[A-Z0-9_]*\) [0-9].*/\1/p' "$srcdir/cl/mma/mma_units.h")
for unit in $units; do
    rm -rf "$work/cl"
    cp -R "$srcdir/cl" "$work/cl"
    chmod -R u+w "$work/cl"
    sed "s|^#include \"mma/mma_units.h\"\$|&\\
#undef MATRIX\\
#define MATRIX $unit|" "$srcdir/cl/mma/unit.clh" >"$work/mma_unit.clh"
    mv -f "$work/mma_unit.clh" "$work/cl/mma/unit.clh"
    grep -q "^#define MATRIX $unit\$" "$work/cl/mma/unit.clh" || {
        echo "$unit: the line to change is no longer in cl/mma/unit.clh"
        failed=$((failed + 1))
        continue
    }
    case $unit in
    *_TF32) types=float32 programs=8 ;; # many problems do not allow it
    *) types=float16,bfloat16 programs=2 ;;
    esac
    on_units "$unit" "$types" random_calls --seed "${CLATTN_TEST_SEED:-1}" \
        --count "${CLATTN_TEST_UNIT_COUNT:-$((6 * programs))}" --same 6 --work 60000
    self_check=$checked
    [ "$types" = float32 ] ||
        on_units "$unit, gradients" "$types" gradients/random_gradients --seed "${CLATTN_TEST_SEED:-1}" \
            --count "$gradients" --work 60000
    self_check=
    [ -n "${CLATTN_TEST_LONG:-}" ] || checked=
done
kernels=$srcdir/cl
must_pass "warpgroups" "$builddir/tests/random_calls" --strategy fused_wgmma --type float16,bfloat16 \
    --seed "${CLATTN_TEST_SEED:-1}" --count "${CLATTN_TEST_UNIT_COUNT:-24}" --same 6 --work 60000
# The problems are those of the units above, and so are the kernels around.
must_pass "gradients by warpgroups" "$builddir/tests/gradients/random_gradients" --strategy fused_wgmma \
    --type float16,bfloat16 --seed "${CLATTN_TEST_SEED:-1}" --count "$gradients" --work 60000
[ -z "${CLATTN_TEST_LONG:-}" ] ||
    must_pass "exact gradients by warpgroups" "$builddir/tests/gradients/exact_gradients" --strategy fused_wgmma
must_pass "exact gradients" "$builddir/tests/gradients/exact_gradients" --strategy fused_mma
must_pass "gradients at the ends of ranges" "$builddir/tests/gradients/ends" --strategy fused_mma
must_pass "sharp gradients" "$builddir/tests/gradients/sharp_gradients" --strategy fused_mma
# Emulated, 1,100 keys take long; the types differ in their products alone, which many rows have too.
if [ -n "${CLATTN_TEST_LONG:-}" ]; then
    on_units "two calls that must agree" float16,bfloat16 metamorphic
else
    on_units "two calls that must agree, float16" float16 metamorphic
    on_units "two calls that must agree, bfloat16" bfloat16 metamorphic --shape "many rows"
fi
finish
