# shellcheck shell=sh
# PoCL's cache of compiled kernels, which PoCL itself never makes smaller. Sourced by ./check.
#
#     FOLDER/AB/CDEF.../          a program: entries come and go as a whole
#               last_accessed     touched whenever somebody builds the program
#     FOLDER/tempfile_...         PoCL leaves some

# trim_kernel_cache FOLDER LIMIT_KIB: where it is larger, removes the programs that were not used for longest, down to
# three quarters of that, so that it is not asked again soon. Those of the last hour stay, whatever they take: of them a
# process beside this one may have more to load. One that is removed is moved away first: nobody finds half of it.
trim_kernel_cache() (
    cd "$1" 2>/dev/null || return 0
    size_kib=$(kib_of .)
    [ "$size_kib" -gt "$2" ] || return 0
    find . -path './*/*' -prune -o -name 'tempfile_*' -mmin +60 -exec rm -f {} +
    trash=$(mktemp -d ./trash_XXXXXX) || return 0
    to_free_kib=$((size_kib - $2 * 3 / 4))
    find . -path './??/*/last_accessed' -mmin +60 -exec sh -c 'stat -c "%Y %n" "$@" || stat -f "%m %N" "$@"' stat {} + \
        2>/dev/null | sort -n | while [ "$to_free_kib" -gt 0 ] && read -r _ used; do
        program=${used%/last_accessed}
        program_kib=$(kib_of "$program")
        mv "$program" "$trash/" 2>/dev/null || continue # another ./check has
        to_free_kib=$((to_free_kib - ${program_kib:-0}))
    done
    rm -rf ./trash_* # what an ended one left, too
)

kib_of() { du -sk "$1" 2>/dev/null | cut -f 1; }
