"""Sessions that several threads run at once, shapes that change from call to call, and many runs: CLATTN_TEST_LONG has
8 threads for 60 seconds, and 10,000 runs that leave nothing behind."""
import concurrent.futures
import gc
import os
import time
import unittest

import numpy as np
import onnx.parser

import ort_session

LONG = bool(os.environ.get("CLATTN_TEST_LONG"))
MODEL = """<ir_version: 10, opset_import: ["": 23]>
two (float[b, s, 32] x, float[b, 1, s, s] mask) => (float[b, s, 32] y) {
    middle = Attention <q_num_heads: int = 4, kv_num_heads: int = 4> (x, x, x, mask)
    y = Attention <q_num_heads: int = 4, kv_num_heads: int = 4, is_causal: int = 1> (middle, middle, middle)
}"""


def model():
    return onnx.parser.parse_model(MODEL).SerializeToString()


def inputs(seed, batch, tokens):
    random = np.random.default_rng(seed)
    x = random.standard_normal((batch, tokens, 32)).astype(np.float32)
    return {"x": x, "mask": random.standard_normal((batch, 1, tokens, tokens)).astype(np.float32)}


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


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

    @unittest.skipUnless(LONG, "10,000 runs and 100 sessions: CLATTN_TEST_LONG")
    def test_no_leak(self):
        """Runs, with inputs that are made anew, and sessions. Allocators take room at times, which they keep; what
        leaks grows in each part, so the one that grows least is judged: by 256 KiB in 2,500 runs."""
        def rounds(runs, sessions):
            session = ort_session.session(model())
            for n in range(runs):
                session.run(None, inputs(n, 1 + n % 2, 1 + n % 40))
            for _ in range(sessions):
                ort_session.session(model()).run(None, inputs(0, 1, 8))
            gc.collect()
            return resident_kib()

        rounds(2000, 100)
        had = [rounds(100, 20)] + [rounds(2500, 25) for _ in range(4)]
        self.assertLess(min(after - before for before, after in zip(had, had[1:])), 256, had)


if __name__ == "__main__":
    unittest.main()
