# shellcheck shell=sh
# What ./quickstart and ./check share: steps with one line each. packages.sh beside it has those that install.
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
    mkdir -p "${logs:-.}"
    "$@" || step_status=$?
    exit "$step_status"
}

# step NAME WHAT_TO_DO COMMAND...: runs the command, and shows how far it is; where it fails, or takes more than
# CLATTN_STEP_LIMIT_S seconds of processors (5,400 where not set; 0: no limit; scripts/limited), tells its last lines
# and WHAT_TO_DO, and ends the script unless $keep_going is set. Exit status 77 is a skip. A command whose last line is
# "N passed, N failed, N skipped" is counted as that, any other as one test. The step's output is in $step_log until the
# next one.
step() {
    begin_step "$1" "$2"
    shift 2
    start_progress 60
    rm -f "$step_log.tests"
    CLATTN_TEST_PROGRESS=$(pwd)/$step_log.tests \
        scripts/limited "$step_limit_s" "./${0##*/}" --step "$@" >"$step_log" 2>&1 </dev/null || step_status=$?
    end_progress
    report_step "$@"
}

# step, for a package manager. Without a limit, which would keep the terminal away from sudo.
installing_step() {
    begin_step "$1" "$2"
    shift 2
    start_progress 10
    "./${0##*/}" --step "$@" >"$step_log" 2>&1 </dev/null || step_status=$?
    end_progress
    report_step "$@"
}

# step_with PROBE NAME WHAT_TO_DO COMMAND...: that step where what it needs (scripts/packages.txt) is there.
step_with() {
    if probe "$1" >/dev/null 2>&1; then
        shift
        step "$@"
    else
        skip_step "$2" "$(why_missing "$1")"
    fi
}

begin_step() { # NAME WHAT_TO_DO
    step_title=$1 what_to_do=$2 step_status=0
    mkdir -p "$logs"
    step_log=$logs/$(printf '%s' "$step_title" | tr -cs 'A-Za-z0-9\n' '-').log
    : >"$step_log"
    step_started=$(date +%s)
    step_name "$step_title"
}

# start_progress SECONDS: shows how far the step's command is, for as long as it runs: on a terminal in place, each
# second, elsewhere in a line each so many SECONDS.
start_progress() {
    rm -f "$step_log.told"
    [ ! -t 1 ] || export CLATTN_STEP_SHOWN=1
    show_progress "$1" &
    progress=$!
}

# The signal is the one that cannot be lost: a shell that has just been started still has the traps of its parent, takes
# what arrives then for theirs, and forgets it; and the wait would last for ever.
end_progress() {
    kill -KILL "$progress" 2>/dev/null || true
    wait "$progress" 2>/dev/null || true
    if [ -t 1 ]; then
        printf '\r\033[K'
        step_name "$step_title"
    elif [ -e "$step_log.told" ]; then
        echo
        step_name "$step_title"
    fi
    rm -f "$step_log.told"
}

show_progress() { # SECONDS
    every_s=$1
    [ ! -t 1 ] || every_s=1
    while sleep "$every_s" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        shown=$(scripts/progress "$step_log")
        [ -n "$shown" ] || continue
        if [ -t 1 ]; then
            printf '\r%.78s\033[K' "  $step_title: $shown"
        else
            printf '\n    %s' "$shown"
            : >"$step_log.told"
        fi
    done
}

# start_beside COMMAND...: runs these, each as a step, one after another beside the steps that follow, and beside what
# was started so before; report_beside waits for one, or takes it. What is not over when the script ends, or fails, is
# ended with it.
start_beside() {
    mkdir -p "$logs"
    for command; do
        rm -rf "$logs/beside-$command.ended" "$logs/beside-$command.taken"
    done
    run_beside "$@" &
    for command; do
        echo $! >"$logs/beside-$command.process"
    done
    beside="${beside:-} $!"
    # shellcheck disable=SC2086 # numbers of processes
    trap 'kill $beside 2>/dev/null || true' EXIT # they may be over, and a trap's failure is the script's
    trap 'exit 130' INT TERM HUP
}

# take_beside COMMAND: whether it is the caller's to run: the first who asks has it.
take_beside() { mkdir "$logs/beside-$1.taken" 2>/dev/null; }

run_beside() {
    trap 'kill "$running" 2>/dev/null; exit 1' INT TERM HUP
    for command; do
        take_beside "$command" || continue
        beside_started=$(date +%s) beside_status=0
        scripts/limited "$step_limit_s" "./${0##*/}" --step "$command" >"$logs/beside-$command.log" 2>&1 </dev/null &
        running=$!
        wait "$running" || beside_status=$?
        echo "$beside_status $beside_started $(date +%s)" >"$logs/beside-$command.ending"
        mv "$logs/beside-$command.ending" "$logs/beside-$command.ended"
    done
}

# wait_beside COMMAND: until that is over, or was ended.
wait_beside() {
    while [ ! -e "$logs/beside-$1.ended" ]; do
        kill -0 "$(cat "$logs/beside-$1.process")" 2>/dev/null || return 0
        sleep 1
    done
}

# report_beside NAME WHAT_TO_DO COMMAND: what step would print of it, and do. One that has not begun is run here and
# now: where reports ask for the last command first, the script and what runs beside it meet in the middle, and neither
# waits for long. The seconds of one that ran beside are its own, not those of waiting for it.
report_beside() {
    if take_beside "$3"; then
        step "$@"
        return
    fi
    step_title=$1 what_to_do=$2 step_log=$logs/beside-$3.log
    step_name "$step_title"
    start_progress 60
    wait_beside "$3"
    end_progress
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
    step_reason=$(grep -v ' passed, ' "$step_log" | tail -n 1)
    note_skip "$step_title" "$step_reason"
    echo "skipped: $step_reason"
}

step_failed() {
    echo "FAILED after $(step_seconds) s (exit status $step_status)"
    echo
    tail -n 40 "$step_log" | sed 's/^/    /'
    echo
    echo "The command: $*"
    echo "Its whole output: $step_log"
    echo "What to do: $what_to_do"
    [ -n "${keep_going:-}" ] || exit 1
    echo
    counts=$(step_counts)
    case $counts in
    *" 0 failed"* | "") counts="0 passed, 1 failed" ;; # it failed beside what it counts
    esac
    add_counts "$counts"
}

# skip_step NAME REASON: counts a step that cannot run here.
skip_step() {
    step_name "$1"
    note_skip "$1" "$2"
    echo "skipped: $2"
    skipped=$((skipped + 1))
}

# What was skipped, and why, for the end.
note_skip() { # NAME REASON
    skips="${skips:-}  $1: $2
"
}

# tell_skips LOG...: what was skipped: steps, and of the tests with these logs how many of what they try.
tell_skips() {
    [ "$skipped" != 0 ] || return 0
    printf '\nSkipped:\n%s' "${skips:-}"
    scripts/skips "$@"
}

# add_counts "N passed, N failed[, N skipped]"
add_counts() {
    # shellcheck disable=SC2046 # three numbers, meant to be split
    set -- $(echo "$1" | tr -c '0-9\n' ' ')
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
}

# can_build_in FOLDER: ends the script, with what to do, where configure and make could not.
can_build_in() {
    case $(pwd) in
    *[[:space:]\"\#\$\&\'\`\\:\;\*\?\(\)\<\>\|]*)
        printf '%s: Autotools cannot build in a folder whose path has a blank or one of %s\n    %s\n' "${0##*/}" \
            '"#$&'\''`\:;*?()<>|' "$(pwd)" >&2
        printf 'Move it, or build by CMake, which can where it is a blank:\n    %s\n' \
            "cmake -B build-cmake && cmake --build build-cmake" >&2
        exit 1 ;;
    esac
    if [ -f "$1/CMakeCache.txt" ] && [ ! -f "$1/config.status" ]; then
        echo "${0##*/}: CMake builds in $1/: go on with it (cmake --build $1), or remove that folder" >&2
        exit 1
    fi
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
        [ -z "$(find configure.ac m4 Makefile.am ./*/*.mk ./*/*/*.mk include/clattn.h -newer Makefile.in)" ]
    then
        echo "configure is up to date"
        return
    fi
    ./autogen.sh
}

# How many compilers may run at once.
jobs() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}
