"""Programs of the documents' pages, which tests run as their readers do."""
import contextlib
import os
import re
import tempfile


@contextlib.contextmanager
def program_of(page, number):
    """The file of the number-th program in Python of a page, from 0."""
    with open(os.path.join(os.environ.get("CLATTN_SOURCE", "."), "docs", page), encoding="utf-8") as file:
        program = file.read().split("```python\n")[1 + number].split("```")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        yield path


def check_ranks(case, done):
    """Whether two ranks told how far they are from one call of the whole, and that is near. They share standard output,
    and may end their lines apart from the text."""
    case.assertEqual(done.returncode, 0, done.stderr[-4000:])
    found = re.findall(r"rank ([01]): largest difference ([\d.e+-]+)", done.stdout)
    case.assertEqual(sorted(rank for rank, _ in found), ["0", "1"])
    case.assertTrue(all(float(difference) < 4e-6 for _, difference in found), found)
