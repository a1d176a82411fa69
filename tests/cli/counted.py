"""Counting of what is right, for the programs beside this one that run the command."""
passed = failed = skipped = 0


def check(label, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAILED %s %s" % (label, str(detail)[:600]))


def skip(count=1):
    global skipped
    skipped += count


def end():
    """Prints the counts; the exit status."""
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0
