# shellcheck shell=sh
# For scripts that count what they try, and what test programs that they run have counted.
passed=0 failed=0 skipped=0

# verdict NAME COMMAND...: one that passes where the command does.
verdict() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}

# count NAME COMMAND...: adds its last line's counts; shows what failed, and figures.
count() {
    name=$1
    shift
    status=0
    said=$("$@" 2>&1) || status=$?
    last=$(echo "$said" | tail -n 1)
    echo "$name: $last"
    case $last in
    *passed*failed*skipped)
        # shellcheck disable=SC2046 # three numbers
        set -- $(echo "$last" | tr -c '0-9\n' ' ')
        passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
        [ "$status" = 0 ] || [ "$status" = 77 ] || [ "$2" != 0 ] || failed=$((failed + 1))
        ;;
    *) failed=$((failed + 1)) ;;
    esac
    echo "$said" | grep -A 3 '^FAIL' | head -n 20
    echo "$said" | grep -E '^(float|bfloat)' || true
}

# must_pass NAME COMMAND...: count, where a program that skips all is a failure too.
must_pass() {
    before=$passed
    count "$@"
    [ "$passed" != "$before" ] || failed=$((failed + 1))
}

# finish: the last line and the exit status; 77 where nothing ran.
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] || exit 1
    [ "$passed" != 0 ] || exit 77
    exit 0
}
