"""What the package has beside attention: pictures of weights, and how a runtime is found."""
import importlib.util
import os
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
        for weights, tokens in (([[1.0]], ["a", "b"]), (np.ones((2, 2, 2)), None), ([[1.0], [0.5, 0.5]], None), (["x"], None),
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
                    self.assertIn(f"<!-- {tokens[1]} -->".replace("<b>", "&lt;b&gt;").replace(" & ", " &amp; "), text.read())
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


if __name__ == "__main__":
    unittest.main()
