"""PyTorch's own tests of attention on the CPU, out of test/test_transformers.py of its source tree (which its wheel has
not): each run twice, with PyTorch's kernels and with clattn.torch.enable(). What passes with the one must pass with the
other.

CLATTN_PYTORCH_SOURCE is that tree, of about the version that is installed: a clone, or what `apt-get source pytorch`
unpacks. CLATTN_PYTORCH_TESTS, a regular expression: only tests of which it is found in the name."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

SOURCE, CHOSEN = os.environ.get("CLATTN_PYTORCH_SOURCE"), os.environ.get("CLATTN_PYTORCH_TESTS", "")
FILE, MODULE = os.path.join("test", "test_transformers.py"), "test_transformers"


class Outcomes(unittest.TestResult):
    """What became of each test: "passed", "skipped", or the last line of why it failed; and what clattn served in
    it."""

    def __init__(self, report):
        super().__init__()
        self.report, self.outcomes, self.totals = report, {}, {"served": Counter(), "declined": Counter()}

    def startTest(self, test):
        super().startTest(test)
        self.outcomes[test.id()] = "passed"

    def stopTest(self, test):
        super().stopTest(test)
        for kind, counts in self.report().items():
            self.totals[kind].update(counts)

    def addSkip(self, test, reason):
        self.outcomes[test.id()] = "skipped"

    def addError(self, test, err):
        self.outcomes[test.id()] = f"{err[0].__name__}: {err[1]}".strip()[:600]

    addFailure = addError

    def addExpectedFailure(self, test, err):
        self.outcomes[test.id()] = "expected failure"

    def addUnexpectedSuccess(self, test):
        self.outcomes[test.id()] = "unexpected success"


def every_test(suite):
    """One after the other, with the names of classes that were made for the CPU."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from every_test(test)
        elif type(test).__name__.endswith("CPU") and re.search(CHOSEN, test.id()):
            yield test


def served():
    import clattn.torch
    clattn.torch.enable()  # again, where a test took PyTorch's own back
    return clattn.torch.report(clear=True)


def run(with_clattn, path):
    """In a process of its own: {"outcomes": ..., "served": ..., "declined": ...} into a file."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu"
    sys.path[:0] = [os.path.join(SOURCE, "test")]
    sys.argv[1:] = []

    result = Outcomes(served if with_clattn else dict)
    result.report()
    for test in every_test(unittest.defaultTestLoader.loadTestsFromModule(__import__(MODULE))):
        test(result)
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"outcomes": result.outcomes, **result.totals}, out)


def outcomes(with_clattn):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "outcomes.json")
        done = subprocess.run([sys.executable, __file__, "clattn" if with_clattn else "stock", path],
                              capture_output=True, text=True)
        if not os.path.exists(path):
            raise AssertionError(f"it ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        with open(path, encoding="utf-8") as text:
            return json.load(text)


@unittest.skipUnless(SOURCE and os.path.exists(os.path.join(SOURCE, FILE)),
                     "no source of PyTorch: CLATTN_PYTORCH_SOURCE names none")
class PyTorch(unittest.TestCase):
    def test_transformers(self):
        stock, ours = outcomes(False), outcomes(True)
        print(f"{len(stock['outcomes'])} tests of {FILE}: {Counter(kind(one) for one in stock['outcomes'].values())}, "
              f"with clattn {Counter(kind(one) for one in ours['outcomes'].values())}; served {ours['served']}, "
              f"declined {ours['declined']}")
        for name, before in stock["outcomes"].items():
            if kind(before) == "failed":
                print(f"{name} fails in PyTorch itself: {before}")
        self.assertGreater(ours["served"].get("forward", 0), 0)
        other = {name: (before, ours["outcomes"].get(name)) for name, before in stock["outcomes"].items()
                 if kind(before) != kind(ours["outcomes"].get(name, "not run"))}
        self.assertEqual(other, {})


def kind(outcome):
    return outcome if outcome in ("passed", "skipped", "expected failure", "unexpected success") else "failed"


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("clattn", "stock"):
        run(sys.argv[1] == "clattn", sys.argv[2])
    else:
        unittest.main()
