#!/bin/sh
# The layers and their gradients with every buffer between pages that cannot be touched, poisoned with NaN
# (guard_layer): nothing outside of an array or a workspace is read or written, and nothing of a workspace is read
# before it is written. tests/robust/guards shows that the layer notices.
set -eu
: "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
: "${CLATTN_TEST_LAYER_CALLS:=12}"
guard=$builddir/tests/icd/.libs/guard_layer.so
[ -f "$guard" ] || { echo "no $guard"; exit 1; }
export OPENCL_LAYERS="${OPENCL_LAYERS:+$OPENCL_LAYERS:}$guard" CLATTN_TEST_LAYER_CALLS
passed=0 failed=0
for name in mha mha_gradients additive additive_gradients; do
    # A fault ends a program without its last line.
    lines=$("$builddir/tests/layers/$name" 2>&1) || { echo "FAIL $name"; failed=$((failed + 1)); }
    echo "$lines"
    counts=$(echo "$lines" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*$/\1 \2/p')
    : "${counts:=0 1}"
    passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
