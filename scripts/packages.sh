# shellcheck shell=sh
# The packages that clattn needs, for ./quickstart and ./check: what is missing, what it will take, how far its
# installation is. Sourced after steps.sh.

# The package manager of this machine; its column in scripts/packages.txt is package_column.
find_package_manager() {
    package_column=0
    for package_manager in apt-get:3 dnf:4 pacman:5 brew:6; do
        if command -v "${package_manager%:*}" >/dev/null 2>&1; then
            package_column=${package_manager#*:} package_manager=${package_manager%:*}
            return
        fi
    done
    package_manager=
}

# probe KIND:NAME: whether a line's first column of scripts/packages.txt is on this machine.
probe() {
    case $1 in
    command:libtoolize) command -v libtoolize >/dev/null || command -v glibtoolize >/dev/null ;;
    command:*) command -v "${1#*:}" >/dev/null ;;
    library:*) pkg-config --exists "$(echo "${1#*:}" | sed 's/>=/ >= /')" ;;
    header:*) echo "#include <${1#*:}>" | cc -E -DCL_TARGET_OPENCL_VERSION=120 - >/dev/null ;;
    driver:*) [ -n "$(find /etc/OpenCL/vendors /usr/local/etc/OpenCL/vendors \
        /opt/homebrew/etc/OpenCL/vendors -name "${1#*:}*.icd" 2>/dev/null)" ] ;;
    sanitizers:*) sanitizes "${1#*:}" ;;
    python:*) python3 -c "import ${1#*:}" ;;
    *) echo "scripts/packages.txt: unknown probe $1" >&2; exit 1 ;;
    esac
}

# sanitizes COMPILER: whether its runtime for AddressSanitizer and UBSan is there, often a package of its own.
sanitizes() {
    tried=$(mktemp)
    sanitizes_status=0
    echo 'int main(void) { return 0; }' |
        { "$1" -fsanitize=address,undefined -x c - -o "$tried" && "$tried"; } >/dev/null 2>&1 || sanitizes_status=1
    rm -f "$tried"
    return "$sanitizes_status"
}

# missing_packages GROUP...: the lines of scripts/packages.txt that this machine lacks, as "probe package".
missing_packages() {
    for group; do
        awk -v group="$group" -v column="$package_column" \
            '!/^#/ && $2 == group { print $1, (column ? $column : "-") }' scripts/packages.txt
    done | while read -r what package; do
        probe "$what" >/dev/null 2>&1 || echo "$what $package"
    done
}

# why_missing PROBE: "no NAME here", and the package that has it.
why_missing() {
    find_package_manager
    package=$(awk -v probe="$1" -v column="$package_column" \
        '$1 == probe && column && $column != "-" { print $column }' scripts/packages.txt)
    case $1 in
    sanitizers:*) what="sanitizers of ${1#*:}" ;;
    *) what=${1#*:} ;;
    esac
    echo "no $what here${package:+: package $package has it}"
}

# install_line PACKAGE...: what root types to install them.
install_line() {
    case $package_manager in
    apt-get) echo "apt-get update && apt-get install -y --no-install-recommends $*" ;;
    dnf) echo "dnf install -y $*" ;;
    pacman) echo "pacman -S --needed --noconfirm $*" ;;
    brew) echo "brew install $*" ;;
    *) echo "no package manager of apt-get, dnf, pacman, brew on this machine"; return 1 ;;
    esac
}

# line_to_paste PACKAGE...: the same for somebody who is not root and has no sudo.
line_to_paste() {
    line=$(install_line "$@") || { echo "$line"; return; }
    case $package_manager in
    brew) echo "$line" ;;
    *) [ "$(id -u)" = 0 ] && echo "$line" || echo "su - -c '$line'" ;;
    esac
}

# Whether the package manager needs no root, or we are root, or sudo makes us root: a password is asked for here, where
# it is seen.
may_install() {
    [ "$package_manager" = brew ] || [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo true; }
}

as_root() {
    if [ "$package_manager" = brew ] || [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Which packages there are: apt-get alone needs to be told. Without a network it goes on with what it knew, a skip.
update_packages() {
    find_package_manager
    as_root apt-get update || return 77
}

# apt-get writes how far it is for programs to read: the step shows it.
install_packages() {
    case $package_manager in
    apt-get)
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            -o APT::Status-Fd=1 -o DPkg::Lock::Timeout=600 "$@"
        ;;
    *)
        line=$(install_line "$@") || { echo "$line"; return 1; }
        as_root sh -c "$line"
        ;;
    esac
}

# Names of packages on lines of missing_packages.
package_names() { awk '$2 != "-" { print $2 }' | sort -u; }

# would_install PACKAGE...: what apt-get says that it would do. --simulate tells no sizes, and --assume-no alone
# installs what needs nothing else, for then it does not ask.
would_install() {
    LC_ALL=C apt-get --assume-no --print-uris -o Debug::NoLocking=1 --no-install-recommends install "$@" 2>&1
}

# package_sizes PACKAGE...: how many that makes with all that they need, and how large they are, where apt-get tells. It
# tells nothing when it does not know one of them, of which some steps can do without.
package_sizes() {
    [ "$package_manager" = apt-get ] || return 0
    told=$(would_install "$@") || true
    unknown=$(echo "$told" | sed -n "s/^E: Unable to locate package //p; s/^E: Package '\(.*\)' has no install.*/\1/p")
    if [ -n "$unknown" ]; then
        echo "  not known to apt-get: $(echo "$unknown" | tr '\n' ' ')"
        # shellcheck disable=SC2046 # a list of names
        told=$(would_install $(printf '%s\n' "$@" | grep -vxF "$unknown")) || true
    fi
    echo "$told" | sed -n 's/^[0-9]* upgraded, \([0-9]* newly installed\),.*/  \1/p
        s/^Need to get \(.*\) of archives\./  \1 to download/p
        s/^After this operation, \(.*\)\./  \1/p'
}

# announce_packages GROUP...: how many will be installed, which, and how large they are, before anything is. Fails
# where none can be, with the line that installs them.
announce_packages() {
    find_package_manager
    names=$(missing_packages "$@" | package_names)
    [ -n "$names" ] || return 0
    # shellcheck disable=SC2086 # a list of names
    set -- $names
    echo "  to install: $# packages, and what they need: $*"
    if ! may_install; then
        echo "  Only root installs packages, and sudo gives no root here."
        printf '  Paste this line, then ./%s again:\n\n%s\n\n' "${0##*/}" "$(line_to_paste "$@")"
        return 1
    fi
    [ "$package_manager" != apt-get ] ||
        installing_step "which packages there are (apt-get update)" "see the log" update_packages
    package_sizes "$@"
}

# Installs what the groups need and this machine lacks, then looks again.
ensure_packages() {
    find_package_manager
    missing=$(missing_packages "$@")
    if [ -n "$missing" ]; then
        echo "missing:"
        echo "$missing"
        # shellcheck disable=SC2046 # a list of names
        install_packages $(echo "$missing" | package_names) || return 1
        missing=$(missing_packages "$@")
    fi
    [ -z "$missing" ] || { echo "still missing:"; echo "$missing"; return 1; }
}

# Packages that the machine can do without: never fails, and one that cannot be had does not keep the
# others out.
ensure_extra_packages() {
    ensure_packages "$@" && return
    for package in $(missing_packages "$@" | package_names); do
        install_packages "$package" || echo "going on without $package"
    done
}

# Fails with the list of what is missing, installs nothing.
require_packages() {
    find_package_manager
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    echo "missing, and the package of ${package_manager:-your system} that has it:"
    echo "$missing"
    # shellcheck disable=SC2046 # a list of names
    printf 'this line installs them:\n\n%s\n\n' "$(line_to_paste $(echo "$missing" | package_names))"
    return 1
}

