"""Sessions that several threads run at once, shapes that change from call to call, runs that fail or are cancelled, and
many runs: CLATTN_TEST_LONG has 8 threads for 60 seconds, and 100,000 runs that leave nothing behind."""
import concurrent.futures
import ctypes
import gc
import os
import subprocess
import sys
import time
import unittest

import numpy as np
import onnx.parser
import onnxruntime

import ort_session

LONG = bool(os.environ.get("CLATTN_TEST_LONG"))
MODEL = """<ir_version: 10, opset_import: ["": 23]>
two (float[b, s, 32] x, float[b, 1, s, s] mask) => (float[b, s, 32] y) {
    middle = Attention <q_num_heads: int = 4, kv_num_heads: int = 4> (x, x, x, mask)
    y = Attention <q_num_heads: int = 4, kv_num_heads: int = 4, is_causal: int = 1> (middle, middle, middle)
}"""

WITH_WEIGHTS = """<ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]>
weights (float[1, 3, 8] x) => (float[1, 3, 8] y, float[1, 1, 3, 3] w) {
    middle = Attention <q_num_heads: int = 1, kv_num_heads: int = 1> (x, x, x)
    y, k, v, w = com.microsoft.MultiHeadAttention <num_heads: int = 1> (middle, x, x)
}"""


def model():
    return onnx.parser.parse_model(MODEL).SerializeToString()


def inputs(seed, batch, tokens):
    random = np.random.default_rng(seed)
    x = random.standard_normal((batch, tokens, 32)).astype(np.float32)
    return {"x": x, "mask": random.standard_normal((batch, 1, tokens, tokens)).astype(np.float32)}


class Mallinfo2(ctypes.Structure):
    """As <malloc.h> has it."""
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                                                     "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use_bytes():
    """What malloc has given and not got back, of all threads. What is resident would hide a leak: a process has
    hundreds of megabytes that were given back, and a leak goes there first."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


class Threads(unittest.TestCase):
    def test_one_session(self):
        """Each thread gets the bits that it gets alone."""
        session, threads = ort_session.session(model()), 8 if LONG else 4
        given = [inputs(seed, 1 + seed % 3, 1 + 7 * seed) for seed in range(threads)]
        right = [session.run(None, feed)[0] for feed in given]
        until = time.monotonic() + (60 if LONG else 1)

        def work(n):
            runs = 0
            while time.monotonic() < until:
                if not np.array_equal(session.run(None, given[n])[0], right[n]):
                    return -1
                runs += 1
            return runs

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            runs = list(pool.map(work, range(threads)))
        self.assertTrue(all(count > 0 for count in runs), runs)

    def test_plans_are_kept(self):
        """Lengths of 33 to 64 tokens plan once for each of the two nodes, and sessions share what was compiled."""
        session = ort_session.session(model())
        session.run(None, inputs(0, 1, 64))
        with ort_session.counted() as counts:
            for tokens in range(33, 65):
                session.run(None, inputs(tokens, 1, tokens))
        self.assertEqual(counts, {"nodes computed": 64})

    def test_many_shapes(self):
        """More than the plans that are kept."""
        session, alone = ort_session.session(model()), ort_session.session(model(), provider=False)
        for batch in range(1, 45):
            feed = inputs(batch, batch, 3)
            np.testing.assert_allclose(session.run(None, feed)[0], alone.run(None, feed)[0], rtol=1e-5, atol=1e-5)

    def test_refused_run(self):
        """A mask that does not fit is an error of the run, in words; the session goes on."""
        session, good = ort_session.session(model()), inputs(1, 2, 5)
        right = session.run(None, good)[0]
        with self.assertRaisesRegex(Exception, "axis 2 of the mask has 3 elements"):
            session.run(None, good | {"mask": np.zeros((2, 1, 3, 5), np.float32)})
        np.testing.assert_array_equal(session.run(None, good)[0], right)

    @unittest.skipUnless(hasattr(ctypes.CDLL(None), "mallinfo2"), "this C library does not count what malloc gave")
    def test_no_leak(self):
        """Drivers and ONNX Runtime take memory for their own when they decide, and so one round may say anything; what
        leaks is in every round, and the median tells it: less than a byte a run. Sessions leave some kilobytes a round
        without the provider too, where each one's plans would be thousands. CLATTN_TEST_LONG: 100,000 runs."""
        session, feeds = ort_session.session(model()), [inputs(n, 1 + n % 2, 1 + n) for n in range(40)]
        several = 25 if LONG else 1
        for what, count, allowed_bytes, work in (
                ("runs", several * 800, several * 800, lambda n: session.run(None, feeds[n % 40])),
                ("sessions", several * 40, several * 10000 + 40000,
                 lambda n: ort_session.session(model()).run(None, feeds[7]))):
            grown, before = [], 0
            for _ in range(1 + 5):
                for n in range(count):
                    work(n)
                gc.collect()
                now = in_use_bytes()
                grown.append(now - before)
                before = now
            print(f"test_no_leak: {grown[1:]} bytes in rounds of {count} {what}")
            self.assertLess(sorted(grown[1:])[2], allowed_bytes, what)

    def test_cancelled(self):
        """A run that is cancelled, before it or amid its nodes, is an error in words; the session goes on."""
        session, feed = ort_session.session(model()), inputs(1, 2, 200)
        right, options = session.run(None, feed)[0], onnxruntime.RunOptions()

        def run_until_cancelled():
            while True:
                session.run(None, feed, options)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(run_until_cancelled)
            time.sleep(0.1)
            options.terminate = True
            with self.assertRaisesRegex(Exception, "terminate"):
                running.result()
        with self.assertRaisesRegex(Exception, "terminate"):
            session.run(None, feed, options)
        np.testing.assert_array_equal(session.run(None, feed)[0], right)

    def test_log(self):
        """CLATTN_ORT_LOG=1 tells a reason when it first comes, and all counts when a session ends; 0 tells nothing."""
        program = f"""import numpy, onnx.parser, ort_session
session = ort_session.session(onnx.parser.parse_model({WITH_WEIGHTS!r}).SerializeToString())
session.run(None, {{'x': numpy.ones((1, 3, 8), numpy.float32)}})"""
        for value, times in (("1", 1), ("0", 0)):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                                  env={**os.environ, "CLATTN_ORT_LOG": value,
                                       "PYTHONPATH": f"{os.path.dirname(__file__)}:{os.environ['PYTHONPATH']}"})
            lines = [line for line in done.stderr.splitlines() if line.startswith("onnxruntime-ep-clattn: ")]
            self.assertEqual(sum("left to another provider" in line for line in lines), times, done.stderr)
            self.assertEqual(lines.count("onnxruntime-ep-clattn: 1 nodes computed"), times, done.stderr)


if __name__ == "__main__":
    unittest.main()
