"""What a process has of the package: its import, a fork, the layouts and functions of the headers, how it is built."""
import ctypes
import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import clattn
from clattn import library


def small_call():
    """The smallest call that there is, of ones."""
    ones = np.ones((1, 1, 2, 4), np.float32)
    return clattn.attention(ones, ones, ones)


def in_a_child(queue):
    try:
        small_call()
        queue.put("computed")
    except clattn.Forked as error:
        queue.put(str(error))


class Process(unittest.TestCase):
    def test_a_fork_is_an_error(self):
        small_call()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=in_a_child, args=(queue,))
        child.start()
        self.assertIn("forked after its parent had used", queue.get(timeout=120))
        child.join()

    def test_import_needs_no_other_package(self):
        program = "import sys, clattn; assert not {'numpy', 'torch', 'transformers'} & set(sys.modules); " \
                  "clattn.devices()"
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_import_takes_no_longer_than_it_must(self):
        """Modules that are large, and that few processes need, come where they are called for."""
        large = {"importlib.metadata", "zipfile", "email", "json", "html", "pathlib", "shutil", "tempfile", "platform",
                 "glob"}
        program = f"import sys; before = set(sys.modules); import clattn; print(*{large} & (set(sys.modules) - before))"
        done = subprocess.run([sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), [])

    def test_submodules_come_on_demand(self):
        program = ("import sys, clattn; clattn.torch.is_enabled(); assert 'transformers' not in sys.modules; "
                   "clattn.transformers.attention_forward; assert not hasattr(clattn, 'tensorflow')")
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_several_devices_compute_together(self):
        """Two of PoCL's, by a list and by CLATTN_DEVICE: results and gradients near those of one."""
        program = """if True:
            import clattn, numpy, os, sys
            if len(clattn.devices()) < 2 or "Portable" not in clattn.devices()[0]["platform"]:
                sys.exit(77)
            q, k, v, grad = numpy.random.default_rng(1).standard_normal((4, 1, 6, 20, 8), numpy.float32)
            one, both = clattn.Context("0:0"), clattn.Context(["0:0", "0:1"])
            os.environ["CLATTN_DEVICE"] = "0:0+0:1"
            for context in both, clattn.Context():
                out, lse = clattn.attention(q, k, v, return_lse=True, context=context)
                wanted = clattn.attention(q, k, v, context=one)
                assert abs(out - wanted).max() < 1e-6
                grads = [clattn.gradients(q, k, v, grad, context=c).values() for c in (context, one)]
                assert all(abs(a - b).max() < 1e-5 for a, b in zip(*grads))
            assert clattn.Plan(q.shape, k.shape, context=both)(q, k, v).shape == q.shape
            """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={**os.environ, "POCL_DEVICES": "pthread pthread"})
        if done.returncode == 77:
            self.skipTest("needs PoCL, which has two devices for the asking")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Package(unittest.TestCase):
    def test_devices_explain_show(self):
        self.assertEqual(sum(device["chosen"] for device in clattn.devices()), 1)
        text = clattn.explain((1, 8, 128, 64), causal="top-left")
        self.assertIn("strategy:", text)
        self.assertIn("host memory:", text)
        self.assertEqual(clattn.show([[0.75, 0.25], [0.0, 1.0]], ["a", "long"]).splitlines()[1], "a   ██  75%▒▒  25%")
        with self.assertRaises(clattn.InvalidShape):
            clattn.show([[1.0]], ["a", "b"])

    def test_the_layout_is_that_of_the_headers(self):
        """clattn/_layout.py is what a C compiler says today."""
        source = os.environ["CLATTN_SOURCE"]
        made = subprocess.run([sys.executable, f"{source}/python/tools/make_layout.py", f"{source}/include"],
                              check=True, capture_output=True, text=True).stdout
        with open(library._layout.__file__, encoding="utf-8") as layout:
            self.assertEqual(made, layout.read())
        self.assertGreater(len(library.functions), 80)

    @unittest.skipUnless(importlib.util.find_spec("setuptools") and
                         (importlib.util.find_spec("wheel") or
                          importlib.util.find_spec("setuptools.command.bdist_wheel")),
                         "no setuptools 70, nor an older one and wheel")
    def test_setup_says_what_to_do(self):
        def build(folder, how):
            environment = {**os.environ, "CLATTN_INSTALL": how}
            return subprocess.run([sys.executable, "setup.py", "-q", "build"], cwd=folder, env=environment,
                                  capture_output=True, text=True)

        with tempfile.TemporaryDirectory() as tree:
            folder = os.path.join(tree, "python")
            shutil.copytree(os.path.join(os.environ["CLATTN_SOURCE"], "python"), folder,
                            ignore=shutil.ignore_patterns("build", "*.egg-info"))
            alone = build(folder, "bundled")
            for name in ("configure", "config.status"):
                open(os.path.join(tree, name), "w", encoding="ascii").close()
            configured = build(folder, "bundled")
            for done, text in ((alone, "no source tree of clattn"), (configured, "make distclean")):
                self.assertEqual(done.returncode, 1)
                self.assertIn(text, done.stderr)
                self.assertIn("CLATTN_INSTALL=system", done.stderr)
                self.assertNotIn("Traceback", done.stderr)
            built = os.path.join(folder, "build", "lib", "clattn")
            os.makedirs(os.path.join(built, "lib"))
            done = build(folder, "system")
            self.assertEqual(done.returncode, 0)
            self.assertNotIn("license", done.stderr)  # setuptools warns of the form that older ones want
            self.assertTrue(all(os.path.exists(os.path.join(built, name)) for name in ("torch.py", "py.typed")))
            self.assertFalse(os.path.exists(os.path.join(built, "lib")))  # it was an earlier build's

    def test_a_library_of_another_layout_is_refused(self):
        for change, text in (("DEFAULTS['clattn_problem'] = '00' * 240", "clattn_problem of .* is not the one"),
                             ("STRUCTS['clattn_call'] = (layout.STRUCTS['clattn_call'][0] + 8, "
                              "*layout.STRUCTS['clattn_call'][1:])",
                              "clattn_call is laid out otherwise"),
                             ("FUNCTIONS['clattn_unheard_of'] = ('int32', ())",
                              "has no clattn_unheard_of: it is older")):
            program = f"import importlib.util, os, sys; folder = os.environ['CLATTN_SOURCE'] + '/python/clattn'\n" \
                      f"spec = importlib.util.spec_from_file_location('clattn._layout', folder + '/_layout.py')\n" \
                      f"layout = importlib.util.module_from_spec(spec); spec.loader.exec_module(layout)\n" \
                      f"layout.{change}\n" \
                      f"sys.modules['clattn._layout'] = layout\nimport clattn"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"LibraryNotFound: clattn: .*{text}")

    def test_functions_by_their_names(self):
        self.assertEqual(library.clattn_type_size(library.CLATTN_FLOAT16), 2)
        self.assertEqual(library.clattn_type_name(library.CLATTN_Q4_0), b"q4_0")
        slopes = (ctypes.c_float * 2)()
        self.assertEqual(library.clattn_alibi_slopes(2, slopes), library.CLATTN_OK)
        self.assertEqual(list(slopes), [2.0**-4, 2.0**-8])


if __name__ == "__main__":
    unittest.main()
