"""Counting of what is right, for the programs beside this one."""
import pathlib
import sys

passed = failed = 0


def check(right, complaint):
    global passed, failed
    if right:
        passed += 1
    else:
        failed += 1
        print(f"{pathlib.Path(sys.argv[0]).stem}: {complaint}")


def end():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)
