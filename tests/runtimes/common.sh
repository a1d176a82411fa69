# shellcheck shell=sh
# What the scripts of the runtimes share. Each of them (intel-cpu, pocl, ...) installs its runtime into a
# cache folder of the user's unless it is there, and prints what makes a program use it: lines
# VARIABLE=VALUE, and a line "root FOLDER" where the program must run in a chroot. Where the runtime cannot be
# had, the last line says why and the exit status is 77; with CLATTN_RUNTIMES_NO_INSTALL set, nothing is
# installed. Messages go to standard error.

# shellcheck disable=SC2034 # used by those who source this
cache=${CLATTN_RUNTIMES_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/clattn-runtimes}

unavailable() {
    echo "$*"
    exit 77
}

# in_cache FOLDER STAMP COMMAND...: runs the command, which fills $folder ($cache/FOLDER), unless it did so
# before with the same stamp, which stands for what it puts there. What an interrupted run left, or one with
# another stamp, is removed first.
in_cache() {
    folder=$cache/$1 stamp=$2
    shift 2
    [ ! -f "$folder/complete" ] || [ "$(cat "$folder/complete")" != "$stamp" ] || return 0
    [ -z "${CLATTN_RUNTIMES_NO_INSTALL:-}" ] || unavailable "not installed, and nothing may be"
    rm -rf "$folder"
    mkdir -p "$folder" || unavailable "cannot make $folder"
    log=$folder.log
    if "$@" >"$log" 2>&1; then
        echo "$stamp" >"$folder/complete"
    else
        cat "$log" >&2
        rm -rf "$folder"
        unavailable "not installed: $(tail -n 1 "$log" | cut -c 1-200)"
    fi
}

# A virtual environment in $folder with pip packages. Its tools are not used after that.
make_venv() { # PACKAGE...
    python3 -m venv "$folder" &&
        "$folder/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "$@"
}

# intel_library FOLDER LIBRARY PACKAGE...: prints the environment for a library of those pip packages. The
# .icd file among them names a path of the machine that it was made on, so the loader gets the library.
intel_library() {
    [ "$(uname -sm)" = "Linux x86_64" ] || unavailable "Intel's runtime is for Linux on x86-64"
    command -v python3 >/dev/null || unavailable "needs python3 with venv"
    library=$cache/$1/lib/$2 in_folder=$1
    shift 2
    in_cache "$in_folder" "$*" make_venv "$@"
    [ -f "$library" ] || unavailable "$library is not there; remove $cache/$in_folder to try again"
    echo "OCL_ICD_VENDORS=$library"
}

# The shared root of another Debian release, with newer runtimes, for those who may chroot. Its stamp is the
# script that makes it: a new script makes a new root.
trixie_root() {
    [ "$(id -u)" = 0 ] || unavailable "needs root, for chroot"
    command -v apt-get >/dev/null || unavailable "needs apt-get, for packages of Debian"
    unshare --mount true 2>/dev/null || unavailable "may not unshare mounts here"
    maker=$(dirname "$0")/debian-root
    in_cache trixie "$(cksum <"$maker")" "$maker" trixie "$cache/trixie"
    echo "root $cache/trixie"
}
