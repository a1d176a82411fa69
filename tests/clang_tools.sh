# shellcheck shell=sh
# What tests/tidy and tests/analyze share. Sourced from the top of the tree, where `build` is a folder in which
# configure and make ran: flags, as make has them, and log, a file of ours.
: "${build:?}"
# shellcheck disable=SC2034 # for who sources this
flags="-std=gnu11 -Iinclude -I. -Isrc -Icl -Itools -Impi -I$build -DCLATTN_DATA_DIR=\"/\" $(sed -n \
    's/^\(OPENCL\|CLBLAST\|CAIRO\|CJSON\|MPI\)_CFLAGS = //p' "$build/Makefile" | tr '\n' ' ')"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Names of ours, which have no blanks. Those of ranks where MPI is.
library_and_command() {
    without='*_windows.c'
    grep -q '^MPI_CFLAGS = .' "$build/Makefile" || without='tools/ranks/*'
    find src tools -name '*.c' ! -name '*_windows.c' ! -path "$without" | sort
}
