"""Calls on NumPy's arrays that were made before: another one differs in addresses only, and what would make it another
call, or no call at all, is seen again each time."""
import itertools
import os
import subprocess
import threading
import unittest
import weakref
from unittest import mock

import numpy as np

import clattn

KEPT = clattn._prepared.of_numpy


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def inputs(rows=9, dtype=np.float32):
    return [normal(2, 4, rows, 16, seed=seed, dtype=dtype) for seed in range(3)]


class Again(unittest.TestCase):
    def setUp(self):
        KEPT.calls.clear()

    def same(self, found, right, message=None):
        self.assertEqual((found.dtype, found.shape), (right.dtype, right.shape))
        self.assertTrue(np.array_equal(found, right), message)

    def is_again(self, call):
        """Whether it was found among those before."""
        with mock.patch.object(clattn._attention, "run", wraps=clattn._attention.run) as run:
            call()
        return not run.called

    def test_the_second_call_is_found(self):
        three, mask = inputs(), np.tri(9, dtype=bool)
        for options in ({}, {"mask": mask}, {"causal": "top-left", "scale": 0.5}, {"out": np.empty_like(three[0])}):
            self.assertFalse(self.is_again(lambda o=options: clattn.attention(*three, **o)))
            self.assertTrue(self.is_again(lambda o=options: clattn.attention(*three, **o)))

    def test_what_is_said_tells_calls_apart(self):
        three, mask = inputs(), np.tri(9, dtype=bool)
        bias = np.where(mask, normal(9, 9), -np.inf).astype(np.float32)
        each = ({}, {"causal": "top-left"}, {"softcap": 2.0}, {"window": 2, "alignment": "top-left"}, {"mask": mask},
                {"window": (2, 1), "alignment": "top-left"}, {"bias": bias}, {"strategy": "plain"},
                {"dropout": 0.5, "seed": 3},
                {"dropout": 0.5, "seed": 4}, {"window": 2, "alignment": "top-left", "always_visible_keys": 1})
        calls = [{**options, **scale} for options in each for scale in ({}, {"scale": 0.5}, {"scale": 0.25})]
        first = [clattn.attention(*three, **call) for call in calls]
        for call, right in zip(calls, first):
            self.same(clattn.attention(*three, **call), right, call)
        other = [x * 2 for x in three]
        again = [clattn.attention(*other, **call) for call in calls]
        KEPT.calls.clear()
        for call, found in zip(calls, again):
            self.same(found, clattn.attention(*other, **call), call)

    def test_true_is_not_one(self):
        three = inputs()
        for name, one, other in (("window", 1, True), ("scale", 1.0, True), ("softcap", 1.0, True), ("seed", 0, False),
                                 ("window", 1, 1.0), ("always_visible_keys", 1, True)):
            options = {"alignment": "top-left", "window": 2, name: one}
            clattn.attention(*three, **options)
            with self.assertRaisesRegex(clattn.InvalidArgument, f"^{name} {other}"):
                clattn.attention(*three, **{**options, name: other})

    def test_arrays_tell_calls_apart(self):
        query, key, value = inputs()
        apart = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (query, key, value)]
        flat, back = np.broadcast_to(key[:, :1], key.shape), key[:, :, ::-1]
        for three in itertools.product((query, apart[0], query[:, :, ::-1]), (key, apart[1], flat, back),
                                       (value, apart[2])):
            right = clattn.attention(*[np.array(x, order="C") for x in three])
            for _ in range(2):
                self.same(clattn.attention(*three), right)
        half = [x.astype(np.float16) for x in (query, key, value)]
        for _ in range(2):
            self.assertEqual(clattn.attention(*half).dtype, np.float16)
            self.assertEqual(clattn.attention(query, key, value).dtype, np.float32)

    def test_results(self):
        three = inputs()
        for _ in range(2):
            out = np.zeros_like(three[0])
            found, lse, weights = clattn.attention(*three, out=out, return_lse=True, return_weights="softmax")
            self.assertIs(found, out)
            self.assertEqual((lse.shape, weights.shape), ((2, 4, 9), (2, 4, 9, 9)))
            self.assertLess(np.abs(clattn.attention(*three) - out).max(), 2e-6)  # perhaps by another strategy
            self.assertLess(np.abs(weights @ three[2] - out).max(), 2e-6)
            self.assertEqual(clattn.attention(*[x[0, 0] for x in three], return_lse=True)[1].shape, (9,))
        self.assertIsNot(clattn.attention(*three), clattn.attention(*three))

    def test_what_is_refused_stays_refused(self):
        three, out = inputs(), np.zeros((2, 4, 9, 16), np.float32)
        clattn.attention(*three, out=out)
        out.flags.writeable = False
        with self.assertRaisesRegex(clattn.InvalidArgument, "^out: is read-only"):
            clattn.attention(*three, out=out)
        with self.assertRaisesRegex(clattn.InvalidArgument, "^query: a MaskedArray"):
            clattn.attention(np.ma.masked_array(three[0], three[0] > 1), *three[1:])
        here = three[1]  # whose keys and values out would overwrite: right, by a copy, each time
        right = clattn.attention(three[0], here.copy(), here.copy())
        for _ in range(2):
            given = here.copy()
            self.same(clattn.attention(three[0], given, given, out=given), right)

    def test_a_read_only_input(self):
        three = inputs()
        right = clattn.attention(*three)
        for x in three:
            x.flags.writeable = False
        for _ in range(2):
            self.same(clattn.attention(*three), right)

    def test_what_is_empty(self):
        for _ in range(2):
            none = [np.zeros((1, 2, 0, 8), np.float32)] * 2
            self.assertTrue((clattn.attention(np.ones((1, 2, 3, 8), np.float32), *none) == 0).all())

    def test_bounded_and_keeps_no_array(self):
        kept = []
        with mock.patch.object(clattn._prepared, "KEPT", 4):
            for rows in range(1, 12):
                three = inputs(rows)
                for _ in range(2):
                    kept += [weakref.ref(x) for x in (*three, clattn.attention(*three))]
            self.assertLessEqual(len(KEPT.calls), 4)
        del three
        self.assertEqual(sum(found() is not None for found in kept), 0)

    def test_threads(self):
        every = [[x * (number + 1) for x in inputs()] for number in range(8)]
        alone, wrong = [clattn.attention(*three) for three in every], []

        def work(number):
            for _ in range(25):
                if not np.array_equal(clattn.attention(*every[number]), alone[number]):
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(wrong, [])


@unittest.skipUnless(os.environ.get("CLATTN_FREE_THREADED"), "no free-threaded Python: CLATTN_FREE_THREADED names none")
class FreeThreaded(unittest.TestCase):
    """By the interpreter that CLATTN_FREE_THREADED names, which has NumPy: all of the above, without a lock."""

    def test_all(self):
        python = os.environ["CLATTN_FREE_THREADED"]
        said = subprocess.run([python, "-c", "import sys, clattn, numpy; print(sys._is_gil_enabled())"], check=True,
                              capture_output=True, text=True).stdout
        self.assertEqual(said.strip(), "False")
        done = subprocess.run([python, __file__, "Again"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
