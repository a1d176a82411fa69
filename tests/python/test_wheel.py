"""The package as the wheel installs it, outside of the source tree: nothing but what is inside and the system's C
library and driver is used. Run by an environment that has it, NumPy, and perhaps pyopencl."""
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import numpy as np

import clattn

PACKAGE = pathlib.Path(clattn.__file__).parent
LIBRARIES = PACKAGE.parent / "clattn.libs"
COMMAND = os.path.join(sysconfig.get_path("scripts"), "clattn")
LINES = """
import clattn, numpy as np
q = np.random.randn(1, 8, 512, 64).astype(np.float32)
out = clattn.attention(q, q, q, causal="bottom-right")
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def mapped(*names):
    """The files of these beginnings that are in this process."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        files = {pathlib.Path(line.split(maxsplit=5)[5].strip()) for line in lines if "/" in line}
    return {file for file in files if file.name.startswith(names)}


class Wheel(unittest.TestCase):
    def test_lines_of_the_readme(self):
        found = {}
        exec(LINES, found)  # pylint: disable=exec-used
        q = found["q"].astype(np.float64)
        scores = np.where(np.tri(512, dtype=bool), q @ q.swapaxes(2, 3) / 8, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        right = weights / weights.sum(-1, keepdims=True) @ q
        self.assertLess(np.abs(found["out"] - right).max(), 5e-6)

    def test_libraries_are_those_of_the_wheel(self):
        """In a process that has not imported pyopencl."""
        program = ("import runpy; t = runpy.run_path(%r); t['clattn'].devices(); "
                   "print(*t['mapped']('libclattn', 'libOpenCL', 'libclblast'), sep='\\n')" % __file__)
        files = [pathlib.Path(line) for line in run(sys.executable, "-c", program).split()]
        self.assertEqual(sorted(file.name.split(".")[0].split("-")[0] for file in files),
                         ["libOpenCL", "libclattn", "libclblast"])
        for file in files:
            self.assertTrue(file.is_relative_to(PACKAGE.parent), file)

    def test_licences(self):
        names = [str(file) for file in importlib.metadata.files("clattn") if "licenses/" in str(file)]
        packages = [pathlib.Path(name).name for name in names]
        self.assertIn("LICENSE", packages)
        for library, package in (("libOpenCL", "ocl-icd"), ("libclblast", "libclblast"), ("libcjson", "libcjson")):
            self.assertEqual(sum(file.name.startswith(library) for file in LIBRARIES.iterdir()), 1)
            self.assertEqual(sum(name.startswith(package) for name in packages), 1, packages)
        self.assertEqual(sum(name.startswith(("libcairo", "libpixman", "libfreetype", "libfontconfig", "libpng"))
                             for name in packages), 5, packages)

    def test_command(self):
        self.assertIn(clattn.__version__, run(COMMAND, "--version"))
        self.assertIn("chosen", run(COMMAND, "devices", "--json"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "q.npy")
            np.save(path, np.random.default_rng(1).standard_normal((1, 1, 4, 8), dtype=np.float32))
            for kind, begin in (("png", b"\x89PNG"), ("svg", b"<?xml")):
                picture = os.path.join(folder, f"picture.{kind}")
                run(COMMAND, "run", "--q", path, "--k", path, "--v", path, "--check", "--plot", picture)
                with open(picture, "rb") as file:
                    self.assertEqual(file.read(len(begin)), begin)

    @unittest.skipUnless(importlib.util.find_spec("pyopencl"), "no pyopencl")
    def test_beside_pyopencl(self):
        """Two loaders in one process, whichever came first; arrays of the one in calls of the other. The context has a
        name, since of Intel's runtime a queue does not keep it."""
        for first, second in (("pyopencl", "clattn"), ("clattn", "pyopencl")):
            program = (f"import {first}, {second}, pyopencl.array as a, numpy as np; "
                       "q = np.random.default_rng(1).standard_normal((1, 2, 5, 8), dtype=np.float32); "
                       "right = clattn.attention(q, q, q); "
                       "context = pyopencl.Context(pyopencl.get_platforms()[0].get_devices()[:1]); "
                       "queue = pyopencl.CommandQueue(context); "
                       "there = a.to_device(queue, q); "
                       "found = clattn.attention(there, there * 1, there).get(); "
                       "assert np.abs(right - found).max() < 1e-6; clattn.attention(q, q, q)")
            run(sys.executable, "-c", program)


if __name__ == "__main__":
    unittest.main()
