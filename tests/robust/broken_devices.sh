#!/bin/sh
# A driver that is broken must not hide the others' devices, nor change their numbers: `clattn devices` says what is
# broken and how, another device is taken unless the broken one was asked for, and then the error is the driver's own.
# PoCL with broken_layer. Run by make check, or with builddir and srcdir set.
set -eu
: "${builddir:=.}" "${srcdir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OPENCL_LAYERS=$builddir/tests/icd/.libs/broken_layer.so
export OPENCL_LAYERS
[ -f "$OPENCL_LAYERS" ] || { echo "no $OPENCL_LAYERS"; exit 1; }
"$builddir/tests/emulated/probe" --is-pocl || {
    echo "the device is not PoCL: none was broken"
    skipped=1
    finish
}
unset CLATTN_DEVICE

failure() {
    failed=$((failed + 1))
    echo "FAILED $1"
    sed 's/^/    /' "$work/said" | cut -c1-200
}

# says WHAT STATUS TEXT... -- COMMAND...: how the command ends, and texts that it says, in a line each.
says() {
    what=$1 wanted=$2 status=0
    shift 2
    : >"$work/texts"
    while [ "$1" != -- ]; do
        printf '%s\n' "$1" >>"$work/texts"
        shift
    done
    shift
    "$@" >"$work/said" 2>&1 || status=$?
    while IFS= read -r text; do
        grep -qF -e "$text" "$work/said" || { failure "$what: nothing says \"$text\":" && return; }
    done <"$work/texts"
    [ "$status" = "$wanted" ] || { failure "$what: ended with $status, not $wanted" && return; }
    passed=$((passed + 1))
}

# shellcheck disable=SC2317 # called by says
{
clattn() { "$builddir/clattn" "$@"; }
explain() { clattn explain --shape 1,1,1,8,8,8 --strategy plain "$@"; }
is_json() { clattn devices --json >"$work/json" && python3 -m json.tool <"$work/json"; }
}

# The first of two devices.
POCL_DEVICES='basic pthread' BROKEN_DEVICE=basic
export POCL_DEVICES BROKEN_DEVICE
driver='clGetDeviceInfo failed with CL_DEVICE_NOT_AVAILABLE (-2)'
says "devices, the first broken" 0 "0:0  basic" "cannot be used: $driver" "0:1  pthread" "<- chosen" -- clattn devices
says "devices --json" 0 '"id": "0:1"' '"broken": [' '"id": "0:0"' "$driver" -- is_json
says "any device" 0 "device: pthread" -- explain
says "a CPU" 0 "device: pthread" -- explain --device cpu
says "the other one" 0 "device: pthread" -- explain --device 0:1
says "the broken one by number" 1 "$driver" -- explain --device 0:0
says "the broken one by name" 1 "$driver" -- explain --device BASIC
says "the broken one by CLATTN_DEVICE" 1 "$driver" -- env CLATTN_DEVICE=0:0 "$builddir/clattn" explain \
    --shape 1,1,1,8,8,8
says "devices, the broken one wanted" 0 'CLATTN_DEVICE is "0:0", which cannot be used' "$driver" -- \
    env CLATTN_DEVICE=0:0 "$builddir/clattn" devices
says "a list, one of which is broken" 1 "$driver" -- explain --device 0:1+0:0
says "none of them" 2 "matches nothing" "0:1 CPU" "0:0" "$driver" -- explain --device nothing

# Both.
BROKEN_DEVICE=-
POCL_DEVICES='pthread pthread'
says "devices, all broken" 0 "0:0" "0:1" "$driver" -- clattn devices
says "devices --json, all broken" 0 '"devices": [' "$driver" -- is_json
says "any device where all are broken" 1 "$driver" -- explain
says "a CPU where all are broken" 1 "$driver" -- explain --device cpu

# A platform before the others, whose devices keep their numbers behind it.
unset BROKEN_DEVICE POCL_DEVICES
export BROKEN_PLATFORM=1
driver='clGetDeviceIDs failed with CL_OUT_OF_HOST_MEMORY (-6)'
says "devices, a broken platform" 0 "0  Broken Platform" "cannot be used: $driver" "1:0  pthread" -- clattn devices
says "devices --json, a broken platform" 0 '"id": "1:0"' '"id": "0"' "$driver" -- is_json
says "any device beside a broken platform" 0 "device: pthread" -- explain
says "a device of a broken platform" 1 "$driver" -- explain --device 0:0
says "a broken platform by name" 1 "$driver" -- explain --device 'broken platform'
says "a number behind all platforms" 2 "matches nothing" -- explain --device 2:0
says "nothing but what is broken" 1 "$driver" -- env BROKEN_DEVICE=- "$builddir/clattn" explain --shape 1,1,1,8,8,8

# A platform that has no device.
BROKEN_PLATFORM=empty
says "devices, an empty platform" 0 "0  Broken Platform" "cannot be used: it lists no device" "1:0  pthread" -- \
    clattn devices
says "any device beside an empty platform" 0 "device: pthread" -- explain
says "an empty platform by name" 2 'platform 0 "Broken Platform": cannot be used: it lists no device' -- \
    explain --device 'broken platform'

# PoCL has none where its cache cannot be written, as in a container whose HOME is not there. /dev/null is no folder for
# root either.
unset BROKEN_PLATFORM XDG_CACHE_HOME
no_cache='platform 0 "Portable Computing Language": cannot be used: it lists no device: PoCL has none where it cannot'
# shellcheck disable=SC2317 # called by says
without_cache() { env POCL_CACHE_DIR=/dev/null/cache "$@"; }
# shellcheck disable=SC2317 # called by says
without_home() { env -u POCL_CACHE_DIR HOME=/dev/null "$@"; }
says "devices, a cache that cannot be written" 0 "Portable Computing Language" "it lists no device" \
    "POCL_CACHE_DIR is /dev/null/cache" "set POCL_CACHE_DIR" -- without_cache "$builddir/clattn" devices
says "any device without a cache" 1 "$no_cache" -- without_cache "$builddir/clattn" explain --shape 1,1,1,8,8,8
says "any device without a home" 1 "$no_cache" "POCL_CACHE_DIR is (not set)" "HOME /dev/null" -- \
    without_home "$builddir/clattn" explain --shape 1,1,1,8,8,8
says "PoCL by name" 2 "$no_cache" -- without_cache "$builddir/clattn" explain --shape 1,1,1,8,8,8 --device portable
says "two empty platforms" 1 "no OpenCL device can be used" '"Broken Platform", which' "PoCL has none where" -- \
    env BROKEN_PLATFORM=empty POCL_CACHE_DIR=/dev/null/cache "$builddir/clattn" explain --shape 1,1,1,8,8,8
finish
