#!/usr/bin/env python3
"""usage: count.py [NAME=VALUE | FILE]...: runs the unittest modules, each in a process, and prints what ./check counts.
NAME is in the environment of all files behind it. Each ends with what it took of processors."""
import os
import re
import resource
import subprocess
import sys

def processor_seconds():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


passed = failed = skipped = 0
for file in sys.argv[1:]:
    if variable := re.fullmatch(r"(\w+)=(.*)", file):
        os.environ[variable[1]] = variable[2]
        continue
    before = processor_seconds()
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", file], capture_output=True, text=True)
    print(done.stdout + done.stderr, flush=True)
    print(f"{os.path.basename(file)}: {processor_seconds() - before:.0f} s of processors", flush=True)
    ran = re.search(r"^Ran (\d+) tests?", done.stderr, re.M)
    wrong = sum(map(int, re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", done.stderr)))
    left = sum(map(int, re.findall(r"skipped=(\d+)", done.stderr)))
    count = int(ran.group(1)) if ran else 0
    lines = done.stderr.strip().splitlines()
    if not ran and done.returncode != 0 and lines and lines[-1].startswith("unittest.case.SkipTest: "):
        left = count = 1  # the file as a whole lacks what it needs
    elif not count or (done.returncode != 0 and not wrong):
        wrong, count = 1, max(count, 1)  # it ended before its tests did
    passed, failed, skipped = passed + count - wrong - left, failed + wrong, skipped + left
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0)
