"""What the scripts of this folder share: one process of `clattn bench`, and calls of others timed in this one."""
import statistics
import subprocess
import sys
import time


def bench_row(program, sizes, options, environment=None):
    """{column: text} of `clattn bench --tsv` of one shape; where it fails, its message and the end."""
    command = [program, "bench", "--shape", ",".join(map(str, sizes)), *map(str, options), "--tsv"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{sys.argv[0]}: {' '.join(command)}: {result.stderr.strip()}")
    names, values = (line.split("\t") for line in result.stdout.strip().splitlines()[-2:])
    return dict(zip(names, values))


def timed_ms(call):
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def times_ms(call, seconds, least_calls=3):
    """(minimum, median) of calls for so long, and so many at least."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < least_calls or time.perf_counter() < end:
        times.append(timed_ms(call))
    return min(times), statistics.median(times)


def compare_turns(theirs, ours):
    """(their minimum, ours, ratio of the minima, ratio of the medians) of lists of (minimum, median), a pair a turn."""
    their_least, our_least = (min(turn[0] for turn in side) for side in (theirs, ours))
    their_median, our_median = (statistics.median(turn[1] for turn in side) for side in (theirs, ours))
    return their_least, our_least, their_least / our_least, their_median / our_median
