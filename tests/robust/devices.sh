#!/bin/sh
# Odd machines, made from PoCL by its environment variables: tiny work-groups, two devices at once, little
# memory, no platform at all. Run by make check, or with builddir set.
set -eu
: "${builddir:=.}" "${srcdir:=.}"
export CLATTN_WISDOM_DIR= # what was tuned here is no concern of tests
probe=$builddir/tests/emulated/probe
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"

# The machine's table of strategies, without CLBlast, whose own kernels need larger work-groups.
names=${CLATTN_TEST_STRATEGIES-$("$probe" --strategies | grep -v / | tr '\n' ' ')}

must_pass "no platform" env OCL_ICD_VENDORS=/nonexistent "$probe" --no-device
if "$probe" --is-pocl; then
    for items in 16 1; do
        must_pass "work-groups of $items" \
            env POCL_MAX_WORK_GROUP_SIZE=$items CLATTN_TEST_STRATEGIES="$names" "$probe"
    done
    must_pass "two devices" env POCL_DEVICES="pthread basic" "$probe" --devices 2
    must_pass "two devices at once, two contexts each" \
        env POCL_DEVICES="pthread basic" "$builddir/tests/robust/together" --contexts 2
    must_pass "1 GiB" env POCL_MEMORY_LIMIT=1 "$probe" --too-large
else
    echo "the device is not PoCL: its odd relatives were not tried"
    skipped=$((skipped + 1))
fi
finish
