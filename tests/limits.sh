#!/bin/sh
# What scripts/limited ends, and what it lets be: processor time counts, of all that a command starts; the clock only at
# four times as much. And what tests/limited gives a test, and tells of it. Last line: N passed, N failed, N skipped.
# shellcheck disable=SC2317 # verdict calls them by name
set -u
: "${srcdir:=.}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/counts.sh
. "$srcdir/tests/counts.sh"
limited() { "$srcdir/scripts/limited" "$@" >"$work/said" 2>&1; }
status_of() { # STATUS SECONDS COMMAND...
    wanted=$1 status=0
    shift
    limited "$@" || status=$?
    [ "$status" = "$wanted" ] || { echo "status $status:" && cat "$work/said" && return 1; }
}
is_over() { # PROCESS: that, or on its way
    for wait_s in 0 1 4 15; do
        sleep "$wait_s"
        [ -d "/proc/$1" ] || return 0
    done
    return 1
}
says() { grep -q "$1" "$work/said" || { cat "$work/said" && return 1; }; }

if [ -r /proc/self/stat ] && command -v timeout >/dev/null; then
    # Two that compute, one of them started by the other and left alone.
    printf 'while :; do :; done &\necho $! >%s\nwhile :; do :; done\n' "$work/process" >"$work/busy"
    verdict "what computes is ended" status_of 124 2:600 sh "$work/busy"
    verdict "it says why" says "limit of 2 s of processors"
    verdict "nothing of it goes on" is_over "$(cat "$work/process")"
fi
if command -v timeout >/dev/null; then
    verdict "one that waits is let be" status_of 0 1:600 sleep 2
    verdict "one that hangs is ended" status_of 124 1 sleep 60
    verdict "it says that too" says "limit of 4 s by the clock"
fi
verdict "a command's status is kept" status_of 3 100 sh -c 'exit 3'
verdict "no limit" status_of 0 0 true

# scripts/steps.sh: what ran beside the script and is over before it is waited for is told at once. In each of the
# twenty, the process that shows progress is ended as soon as it is begun.
mkdir "$work/beside"
ln -s "$(cd "$srcdir" && pwd)/scripts" "$work/beside/scripts"
cat >"$work/beside/check" <<'END'
#!/bin/sh
set -eu
logs=logs
. scripts/steps.sh
never() { echo ran >>logs/ran && echo "1 passed, 0 failed"; }
sleeps() { sleep 3; echo "3 passed, 0 failed"; }
run_step "$@"
start_beside true sleeps never
wait_beside true
for time in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    report_beside "time $time" "nothing" true
done
report_beside "the last" "nothing" never
report_beside "the second" "nothing" sleeps
wait "${beside# }"
echo "the last ran $(wc -l <logs/ran) times"
END
chmod +x "$work/beside/check"
verdict "what is over is not waited for" status_of 0 60:600 sh -c "cd '$work/beside' && ./check"
verdict "and is told each time" says 'time 20  *ok'
verdict "what has not begun is run where it is asked for" says 'the last  *ok  *[0-9]* s  *1 passed, 0 failed'
verdict "what runs beside is waited for" says 'the second  *ok  *\([3-9]\|[1-9][0-9]*\) s  *3 passed, 0 failed'
verdict "nothing runs twice" says '^the last ran 1 times$'


# tests/limited: arguments and environment from a choice, where the environment does not say otherwise.
mkdir "$work/tests"
# shellcheck disable=SC2016 # the test expands it
printf '#!/bin/sh\necho "given $* $FROM_CHOICE $KEPT $FROM_SHORT"\n' >"$work/tests/shown"
printf '# a comment\ntests/shown --two words FROM_CHOICE=set KEPT=changed\n' >"$work/choice"
printf 'tests/sh*n FROM_SHORT=short FROM_CHOICE=late\ntests/other FROM_SHORT=wrong\n' >"$work/short"
chmod +x "$work/tests/shown"
KEPT=kept CLATTN_TEST_CHOICE=$work/choice CLATTN_TEST_SHORT=$work/short CLATTN_TEST_LONG='' \
    CLATTN_TEST_PROGRESS=$work/log.tests "$srcdir/tests/limited" "$work/tests/shown" >"$work/said"
verdict "a test is given what the choice says, then what the short form does" \
    says '^given --two words set kept short$'
CLATTN_TEST_SHORT=$work/short CLATTN_TEST_LONG=1 "$srcdir/tests/limited" "$work/tests/shown" >"$work/long"
verdict "and nothing in the long form" grep -q '^given *$' "$work/long"
verdict "a test's log tells how long it took" says '^took [0-9]* s, [0-9]* s of processors$'
told=$(cut -d ' ' -f 1 "$work/log.tests" | paste -s -d ' ' -)
verdict "its beginning and its end are told" test "$told" = "begin end"
echo "of 2" >>"$work/log.tests"
verdict "how far it is" test "$("$srcdir/scripts/progress" "$work/log")" = "1 of 2 tests, 0 failed"

finish
