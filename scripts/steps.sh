# shellcheck shell=sh
# What ./quickstart and ./check share: steps with one line each, and the packages that clattn needs.
# Sourced from the top of the tree, after logs=FOLDER: each step leaves its output there. Steps run in a process of
# their own, so that they can have a limit of time: the script calls itself with --step COMMAND..., which it
# hands to run_step once all of its functions are defined.

: "${logs:?}"
passed=0
failed=0
skipped=0
step_ended=
started_at=$(date +%s)
step_limit_s=${CLATTN_STEP_LIMIT_S:-5400}

seconds_in_all() { seconds_since "$started_at"; }
seconds_since() { echo $(($(date +%s) - $1)); }
step_seconds() { echo $((${step_ended:-$(date +%s)} - step_started)); }

# The name of a step, padded, without the end of the line.
step_name() { printf '  %-46s ' "$1"; }

# run_step --step COMMAND...: a function of this file or the script, or a program, and the end.
run_step() {
    [ "${1:-}" = --step ] || return 0
    shift
    step_status=0
    "$@" || step_status=$?
    exit "$step_status"
}

# step NAME WHAT_TO_DO COMMAND...: runs the command; stops everything with its last lines and WHAT_TO_DO
# when it fails, or takes longer than CLATTN_STEP_LIMIT_S seconds (5,400 where not set; 0: no limit). Exit
# status 77 is a skip. A command whose last line is "N passed, N failed, N skipped" is counted as that, any
# other as one test. The step's output is in $step_log until the next one.
step() {
    step_title=$1 what_to_do=$2 step_status=0
    shift 2
    mkdir -p "$logs"
    step_log=$logs/$(printf '%s' "$step_title" | tr -cs 'A-Za-z0-9\n' '-').log
    step_started=$(date +%s)
    step_name "$step_title"
    scripts/limited "$step_limit_s" "./${0##*/}" --step "$@" >"$step_log" 2>&1 </dev/null ||
        step_status=$?
    report_step "$@"
}

# step, for a command that may ask for a password: without a limit, which would keep the terminal away from it.
asking_step() {
    step_limit_s=0
    step "$@"
    step_limit_s=${CLATTN_STEP_LIMIT_S:-5400}
}

# start_beside COMMAND...: runs these, each as a step, one after another beside the steps that follow; report_beside
# waits for one. What is not over when the script ends, or fails, is ended with it.
start_beside() {
    mkdir -p "$logs"
    rm -f "$logs"/beside-*.ended
    run_beside "$@" &
    beside=$!
    trap 'kill "$beside" 2>/dev/null || true' EXIT # it may be over, and a trap's failure is the script's
    trap 'exit 130' INT TERM HUP
}

run_beside() {
    trap 'kill "$running" 2>/dev/null; exit 1' INT TERM HUP
    for command; do
        beside_started=$(date +%s) beside_status=0
        scripts/limited "$step_limit_s" "./${0##*/}" --step "$command" >"$logs/beside-$command.log" 2>&1 </dev/null &
        running=$!
        wait "$running" || beside_status=$?
        echo "$beside_status $beside_started $(date +%s)" >"$logs/beside-$command.ending"
        mv "$logs/beside-$command.ending" "$logs/beside-$command.ended"
    done
}

# report_beside NAME WHAT_TO_DO COMMAND: what step would print of it, and do. Its seconds are its own, not those of
# waiting for it.
report_beside() {
    step_title=$1 what_to_do=$2 step_log=$logs/beside-$3.log
    step_name "$step_title"
    while [ ! -e "$logs/beside-$3.ended" ]; do
        kill -0 "$beside" 2>/dev/null || [ -e "$logs/beside-$3.ended" ] || break
        sleep 1
    done
    read -r step_status step_started step_ended <"$logs/beside-$3.ended" || step_status=1
    report_step "$3"
    step_ended=
}

# report_step COMMAND...: the rest of the line of a step that ended with $step_status.
report_step() {
    case $step_status in
    0) step_passed ;;
    77) step_skipped ;;
    *) step_failed "$@" ;;
    esac
}

# The counts in the last line of the step's output, nothing where there are none.
step_counts() {
    sed -n '$s/.*\(^\| \)\([0-9][0-9]* passed, [0-9][0-9]* failed\(, [0-9][0-9]* skipped\)\{0,1\}\)$/\2/p' "$step_log"
}

step_passed() {
    counts=$(step_counts)
    add_counts "${counts:-1 passed, 0 failed}"
    printf 'ok   %4d s   %s\n' "$(step_seconds)" "$counts"
}

step_skipped() {
    counts=$(step_counts)
    add_counts "${counts:-0 passed, 0 failed, 1 skipped}"
    echo "skipped: $(grep -v ' passed, ' "$step_log" | tail -n 1)"
}

step_failed() {
    echo "FAILED after $(step_seconds) s (exit status $step_status)"
    echo
    tail -n 40 "$step_log" | sed 's/^/    /'
    echo
    echo "The command: $*"
    echo "Its whole output: $step_log"
    echo "What to do: $what_to_do"
    exit 1
}

# skip_step NAME REASON: counts a step that cannot run here.
skip_step() {
    step_name "$1"
    echo "skipped: $2"
    skipped=$((skipped + 1))
}

# add_counts "N passed, N failed[, N skipped]"
add_counts() {
    # shellcheck disable=SC2046 # three numbers, meant to be split
    set -- $(echo "$1" | tr -c '0-9\n' ' ')
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
}

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
    *) echo "scripts/packages.txt: unknown probe $1" >&2; exit 1 ;;
    esac
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

# By sudo unless we are root; where there is none, the line is for people to paste.
install_packages() {
    line=$(install_line "$@") || { echo "$line"; return 1; }
    if [ "$package_manager" = brew ] || [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive sh -c "$line"
    elif command -v sudo >/dev/null; then
        sudo env DEBIAN_FRONTEND=noninteractive sh -c "$line"
    else
        printf 'sudo is not there; as root:\n\n%s\n\n' "$line"
        return 1
    fi
}

# Names of packages on lines of missing_packages.
package_names() { awk '$2 != "-" { print $2 }' | sort -u; }

# announce_packages GROUP...: how many a step will install and which, with what they take where apt-get knows that.
announce_packages() {
    find_package_manager
    names=$(missing_packages "$@" | package_names)
    [ -n "$names" ] || return 0
    # shellcheck disable=SC2086 # a list of names
    set -- $names
    echo "  to install: $# packages, and what they need: $*"
    [ "$package_manager" != apt-get ] ||
        LC_ALL=C apt-get --assume-no -o Debug::NoLocking=1 --no-install-recommends install "$@" 2>/dev/null |
        sed -n 's/^[0-9]* upgraded, \([0-9]* newly installed\),.*/  \1/p; s/^Need to get \(.*\)\./  \1 to download/p
            s/^After this operation, \(.*\)\./  \1/p'
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

# The same for packages that the machine can do without: never fails, and one that cannot be had does
# not keep the others out.
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
    printf 'as root:\n\n%s\n\n' "$(install_line $(echo "$missing" | package_names))"
    return 1
}

# configure_in FOLDER OPTION...: runs configure there, unless it ran with the same options before.
configure_in() {
    folder=$1
    shift
    top=$(pwd)
    mkdir -p "$folder"
    if [ -f "$folder/config.status" ] && [ "$(cat "$folder/options" 2>/dev/null)" = "$*" ] &&
        [ -n "$(find "$folder/config.status" -newer configure)" ]; then
        echo "configured before with: $*"
        return
    fi
    (cd "$folder" && "$top/configure" "$@") && echo "$*" >"$folder/options"
}

# ./configure, made when it is older than what it is made of.
make_configure() {
    if [ -f configure ] && [ -f Makefile.in ] &&
        [ -z "$(find configure.ac m4 Makefile.am ./*/local.mk ./*/*/local.mk include/clattn.h -newer Makefile.in)" ]; then
        echo "configure is up to date"
        return
    fi
    ./autogen.sh
}

# How many compilers may run at once.
jobs() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}
