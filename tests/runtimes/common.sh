# shellcheck shell=sh
# What the scripts of the runtimes share. Each of them (intel-cpu, pocl, ...) installs its runtime into a
# cache folder of the user's unless it is there, and prints what makes a program use it: lines
# VARIABLE=VALUE, and a line "root FOLDER" where the program must run in a chroot; where it is one for another
# processor, "emulator FILE", what runs programs there, and "build FOLDER", where those of clattn are. Where the
# runtime cannot be had, the last line says why and the exit status is 77; with CLATTN_RUNTIMES_NO_INSTALL set,
# nothing is installed. Messages go to standard error.

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

# unpack PACKAGE...: they, and what they need that this system lacks, into $folder. Without root.
unpack() {
    command -v apt-get >/dev/null || { echo "no apt-get on this system"; return 1; }
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
    cat >"$folder/apt/conf" <<END
Dir::Cache "$folder/apt"; APT::Install-Recommends "false"; APT::Sandbox::User "";
Debug::NoLocking "true";
END
    export APT_CONFIG="$folder/apt/conf"
    if ! apt-cache show "$@" >/dev/null 2>&1; then
        echo "Dir::State::lists \"$folder/apt/lists\";" >>"$APT_CONFIG"
        apt-get --quiet --quiet update || return 1
    fi
    # Other packages may be in the way of an installation; nothing is installed.
    apt-get --quiet --quiet --yes --download-only --allow-remove-essential install "$@" || return 1
    for package in "$folder"/apt/archives/*.deb; do
        dpkg --extract "$package" "$folder" || return 1
    done
    rm -rf "$folder/apt"
    unset APT_CONFIG
}

# wrap COMMAND: a script that runs $folder's COMMAND with its own libraries, in $folder/bin.
wrap() {
    libraries=$(find "$folder/usr/lib" -name '*.so*' -exec dirname {} + | sort -u | paste -s -d : -)
    mkdir -p "$folder/bin"
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec %s "$@"\n' "$libraries" \
        "$folder/usr/bin/$1" >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}

# debian_root FOLDER ARCHITECTURE PACKAGE...: those of Debian 13 and what they need, in $folder ($cache/FOLDER). Its
# stamp is the list and the script that makes it: a new one of either makes a new root.
debian_root() {
    maker=$(dirname "$0")/debian-root in_folder=$1
    shift
    in_cache "$in_folder" "$(cksum <"$maker") $*" "$maker" trixie "$cache/$in_folder" "$@"
}

need_chroot() {
    [ "$(id -u)" = 0 ] || unavailable "needs root, for chroot"
    command -v apt-get >/dev/null || unavailable "needs apt-get, for packages of Debian"
    unshare --mount true 2>/dev/null || unavailable "may not unshare mounts here"
}

# The shared root of another Debian release, with newer runtimes, for those who may chroot.
trixie_root() {
    need_chroot
    # The runtimes; what clattn's programs are linked with; what its test scripts call.
    debian_root trixie "$(dpkg --print-architecture)" pocl-opencl-icd mesa-opencl-icd ocl-icd-libopencl1 \
        libclblast1 libcjson1 libcairo2 libc-bin dash coreutils findutils grep sed
    echo "root $folder"
}
