#!/bin/sh
# What scripts/kernel_cache.sh removes of a cache that is too large, in folders of this test's own that look as PoCL's.
# Last line: N passed, N failed, N skipped.
# shellcheck disable=SC2317 # verdict calls them by name
set -u
: "${srcdir:=.}"
# shellcheck source=scripts/kernel_cache.sh
. "$srcdir/scripts/kernel_cache.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder="$work/a cache"
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
left() { (cd "$folder" && find . -name '[a-z]*.so' | sed 's|.*/||; s|\.so||' | sort | paste -s -d ' ' -); }
is_left() { [ "$(left)" = "$1" ] || { echo "left are $(left)" && return 1; }; }

# program NAME DATE KIB: one of that size, last built on that date.
program() {
    entry=$folder/AB/$(printf '%s' "$1" | tr '[:lower:]' '[:upper:]')
    mkdir -p "$entry/a_kernel/1-1-1"
    dd if=/dev/zero of="$entry/a_kernel/1-1-1/$1.so" bs=1024 count="$3" 2>/dev/null
    touch -t "$2" "$entry/last_accessed"
}
# Files are as new as the last one that was written; only last_accessed is not.
fill() {
    rm -rf "$folder"
    program eldest 202001010000 300
    program younger 202203010000 300
    program elder 202101010000 300
    program new "$(date +%Y%m%d%H%M)" 300
}

fill
trim_kernel_cache "$folder" 100000
verdict "a small one stays" is_left "elder eldest new younger"
trim_kernel_cache "$folder" 1200
verdict "those that nobody used for longest go" is_left "new younger"
verdict "they go as a whole" test "$(find "$folder" -name last_accessed | wc -l)" -eq 2
verdict "nothing else is left" test -z "$(find "$folder" -name 'trash_*')"
trim_kernel_cache "$folder" 1
verdict "what was used within the hour stays" is_left new
trim_kernel_cache "$work/nowhere" 1
verdict "a cache that is not there is no error" test ! -e "$work/nowhere"

fill
touch -t 202001010000 "$folder/tempfile_old"
touch "$folder/tempfile_new" "$folder/AB/ELDEST/tempfile_its_own"
mkdir "$folder/trash_of_another"
trim_kernel_cache "$folder" 1250
verdict "temporary files go once they are old" test ! -e "$folder/tempfile_old" -a -e "$folder/tempfile_new"
verdict "what an ended one left goes" test ! -e "$folder/trash_of_another"

fill
trim_kernel_cache "$folder" 1 &
trim_kernel_cache "$folder" 1
wait
verdict "two at once" is_left new

finish
