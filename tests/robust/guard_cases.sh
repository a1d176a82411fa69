#!/bin/sh
# The cases of tests/cases with every buffer between pages that cannot be touched, poisoned with NaN
# (guard_layer): nothing outside of a tensor is read or written. tests/robust/guards shows that the layer
# notices.
set -eu
: "${srcdir:=.}" "${builddir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
guard=$builddir/tests/icd/.libs/guard_layer.so
[ -f "$guard" ] || { echo "no $guard"; exit 1; }
export OPENCL_LAYERS="${OPENCL_LAYERS:+$OPENCL_LAYERS:}$guard" # with quick_layer, so that its programs are run_cases'
"$builddir/clattn" explain --shape 1,1,1,4,4,4 | grep -q '^host memory: copied' || {
    echo "FAIL: with the layer, tensors are used where they lie, outside of guarded buffers"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
# shellcheck disable=SC2046 # one word a strategy
exec "$srcdir/tests/run_cases.sh" auto $("$builddir/tests/emulated/probe" --strategies | grep -v /)
