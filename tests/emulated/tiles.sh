# shellcheck shell=sh
# For scripts that need AMX: on x86-64 Linux with AVX-512 its instructions can be emulated. Sourced by amx.sh and
# probes.sh.
: "${builddir:=.}"

# preload_tiles: sets preload to what has to be preloaded, "" where the CPU has AMX. Fails where there is neither.
preload_tiles() {
    preload=
    "$builddir/tests/emulated/amx_instructions" >/dev/null 2>&1 ||
        preload=$builddir/tests/emulated/.libs/amx_emulator.so
    [ -z "$preload" ] || [ -f "$preload" ]
}

# with_tiles COMMAND...: with what preload names, if anything.
with_tiles() {
    if [ -n "$preload" ]; then
        # The sanitizer wants to be first; it need not be.
        ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 LD_PRELOAD=$preload "$@"
    else
        "$@"
    fi
}
