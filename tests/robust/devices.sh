#!/bin/sh
# Odd machines, made from PoCL by its environment variables: tiny work-groups, two devices at once, little
# memory, no platform at all. Run by make check, or with builddir set.
set -eu
: "${builddir:=.}"
probe=$builddir/tests/robust/probe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# on NAME ARGUMENT... -- VARIABLE=VALUE...: probe with these variables; its counts are added.
on() {
    name=$1
    shift
    arguments=
    while [ "$1" != -- ]; do
        arguments="$arguments $1"
        shift
    done
    shift
    status=0
    # shellcheck disable=SC2086 # words
    env "$@" "$probe" $arguments >"$work/out" 2>"$work/errors" || status=$?
    last=$(tail -n 1 "$work/out")
    case $last in
    *passed*failed*skipped)
        # shellcheck disable=SC2046 # three numbers
        set -- $(echo "$last" | tr -c '0-9\n' ' ')
        passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
        ;;
    *) failed=$((failed + 1)) ;;
    esac
    echo "$name: $last"
    if [ "$status" != 0 ]; then
        grep -v '^skipped' "$work/out" || true
        grep -v '^CLBlast' "$work/errors" || true
        [ "$failed" != 0 ] || failed=1
    fi
}

# What the machine's table of strategies is, without CLBlast, whose own kernels need larger work-groups.
names=${CLATTN_TEST_STRATEGIES-$("$probe" --strategies | grep -v / | tr '\n' ' ')}

on "no platform" --no-device -- OCL_ICD_VENDORS=/nonexistent
if "$probe" --is-pocl; then
    on "work-groups of 16" -- POCL_MAX_WORK_GROUP_SIZE=16 "CLATTN_TEST_STRATEGIES=$names"
    on "work-groups of 1" -- POCL_MAX_WORK_GROUP_SIZE=1 "CLATTN_TEST_STRATEGIES=$names"
    on "two devices" --devices 2 -- "POCL_DEVICES=pthread basic"
    one=$probe probe=$builddir/tests/robust/together
    on "two devices at once, two contexts each" --contexts 2 -- "POCL_DEVICES=pthread basic"
    probe=$one
    on "1 GiB" --too-large -- POCL_MEMORY_LIMIT=1
else
    echo "the device is not PoCL: its odd relatives were not tried"
    skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
