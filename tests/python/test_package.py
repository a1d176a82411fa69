"""What the package has beside attention: pictures of weights, and how a runtime is found."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import clattn


class Show(unittest.TestCase):
    def test_show(self):
        shown = clattn.show([[0.75, 0.25], [0.0, 1.0]], ["a", "<b> & $x"])
        page = shown._repr_html_()
        self.assertIn("&lt;b&gt; &amp; $x", page)
        self.assertNotIn("<b>", page)
        self.assertEqual(page.count("<td"), 4)
        self.assertTrue(clattn.show([[0.5, 0.5]]).startswith(" "))  # numbers where there are no tokens
        for weights, tokens in (([[1.0]], ["a", "b"]), (np.ones((2, 2, 2)), None), ([[1.0], [0.5, 0.5]], None),
                                (["x"], None),
                                ([[0.5, 0.5]], ["a"])):
            with self.assertRaises(clattn.InvalidShape):
                clattn.show(weights, tokens)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")
    def test_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            for tokens in (["a", "<b> & $x$ \\"], ["", "a long token"]):
                picture = os.path.join(folder, "picture.svg")
                clattn.show([[0.75, 0.25], [0.0, 1.0]], tokens).save(picture)
                with open(picture, encoding="utf-8") as text:
                    self.assertIn(f"<!-- {tokens[1]} -->".replace("<b>", "&lt;b&gt;").replace(" & ", " &amp; "),
                                  text.read())
            clattn.show(np.eye(300)).save(os.path.join(folder, "large.png"))
            clattn.show([]).save(os.path.join(folder, "empty.png"))
        self.assertNotIn("matplotlib.pyplot", sys.modules)


class Runtime(unittest.TestCase):
    def test_the_runtime_of_the_registry_is_for_machines_without_a_driver(self):
        runtime, names = clattn.library._runtime, ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")
        with tempfile.TemporaryDirectory() as folder:
            record = os.path.join(folder, "intel_opencl_rt-1.dist-info")
            os.makedirs(record)
            file = os.path.join(folder, "libintelocl.so")
            for name, text in (("METADATA", "Name: intel-opencl-rt\nVersion: 1\n"), ("RECORD", "libintelocl.so,,\n")):
                with open(os.path.join(record, name), "w", encoding="utf-8") as out:
                    out.write(text)

            def found(vendors=folder, **environment):
                with mock.patch.dict(os.environ, environment), mock.patch.object(runtime, "_VENDORS", vendors):
                    for name in set(names) - set(environment):
                        os.environ.pop(name, None)
                    runtime.find()
                    return os.environ.get("OCL_ICD_VENDORS")

            self.assertIsNone(found())  # no such package
            with mock.patch.object(sys, "path", [folder, *sys.path]):
                self.assertIsNone(found())  # the package without its library
                open(file, "w", encoding="ascii").close()
                self.assertEqual(found(), os.path.realpath(file))
                self.assertEqual(found(OCL_ICD_VENDORS="mine"), "mine")
                self.assertIsNone(found(OCL_ICD_FILENAMES="mine"))
                open(os.path.join(folder, "some.icd"), "w", encoding="ascii").close()
                self.assertIsNone(found())  # the system has a driver



@unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy")
class Types(unittest.TestCase):
    """What type checkers make of the package; mypy keeps what it knows of PyTorch in the environment's folder."""

    def mypy(self, *arguments):
        folder = os.path.join(os.environ["CLATTN_SOURCE"], "python")
        return subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.path.join(sys.prefix, "mypy"),
                               *arguments],
                              cwd=folder, capture_output=True, text=True)

    def test_the_package(self):
        done = self.mypy()
        self.assertEqual((done.returncode, done.stdout.splitlines()[:-1], done.stderr), (0, [], ""))

    def test_who_uses_it(self):
        program = ("import clattn\nclattn.attention(1, 2, 3, causal=True)\nclattn.Context(5)\n"
                   "clattn.show([[1.0]]).save()\nclattn.devices()[0]['name']\nclattn.explain((1, 2, 3, "
                   "8)).splitlines()\n")
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "user.py")
            with open(path, "w", encoding="ascii") as out:
                out.write(program)
            found = self.mypy("--strict", path).stdout
        self.assertEqual([line.split(":")[1] for line in found.splitlines()[:-1] if ": error:" in line],
                         ["2", "3", "4"])


if __name__ == "__main__":
    unittest.main()
