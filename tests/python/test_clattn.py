"""clattn.attention on arrays of every kind, against float64; what is refused; memory and threads."""
import gc
import os
import threading
import unittest
import weakref

import numpy as np

import clattn
from clattn import library

HAS_FLOAT64 = next(device["float64"] for device in clattn.devices() if device["chosen"])


def reference(query, key, value, mask=None, bias=0.0, softcap=None, sinks=None):
    """softmax in float64; a row without a key is 0."""
    query, key, value = (np.asarray(x, dtype=np.float64) for x in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat(group, 1), value.repeat(group, 1)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    scores = (softcap * np.tanh(scores / softcap) if softcap else scores) + bias
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), -1e300)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    total = total + (np.exp(np.reshape(sinks, (1, -1, 1, 1)) - top) if sinks is not None else 0)
    return weights / np.where(total == 0, 1, total) @ value


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


class Protocol:
    """An array of another package: nothing but one protocol of NumPy's."""

    def __init__(self, array, name):
        self._array = array
        if name == "__dlpack__":
            self.__class__ = type("DLPack", (Protocol,), {
                "__dlpack__": lambda s, **kw: s._array.__dlpack__(**kw), "__dlpack_device__": lambda s: (1, 0)})
        else:
            self.__class__ = type("Interface", (Protocol,),
                                  {"__array_interface__": property(lambda s: s._array.__array_interface__)})


class Attention(unittest.TestCase):
    def setUp(self):
        self.query = normal(2, 4, 9, 16)
        self.key, self.value = normal(2, 2, 13, 16, seed=1), normal(2, 2, 13, 12, seed=2)

    def close(self, found, right, tolerance=2e-6):
        self.assertEqual(np.shape(found), np.shape(right))
        difference = float(np.max(np.abs(np.asarray(found, dtype=np.float64) - right)))
        self.assertLessEqual(difference, tolerance)

    def test_shapes_with_fewer_axes(self):
        right = reference(self.query, self.key, self.value)
        self.close(clattn.attention(self.query, self.key, self.value), right)
        self.close(clattn.attention(self.query[1], self.key[1], self.value[1]), right[1])
        self.close(clattn.attention(self.query[1, 3], self.key[1, 1], self.value[1, 1]), right[1, 3])

    def test_types(self):
        for dtype, tolerance in (((np.float64, 1e-13),) if HAS_FLOAT64 else ()) + ((np.float16, 4e-3),):
            inputs = [x.astype(dtype) for x in (self.query, self.key, self.value)]
            out = clattn.attention(*inputs)
            self.assertEqual(out.dtype, dtype)
            self.close(out, reference(*inputs), tolerance)

    def test_other_packages(self):
        right = reference(self.query, self.key, self.value)
        for name in ("__dlpack__", "__array_interface__"):
            given = [Protocol(x, name) for x in (self.query, self.key, self.value)]
            self.assertFalse(hasattr(given[0], "strides"))
            self.close(clattn.attention(*given), right)

    def test_views_are_not_copied(self):
        rows_first = np.ascontiguousarray(self.query.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        packed = normal(2, 13, 3, 2, 16, seed=5)
        query, key, value = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        wide = np.full((2, 4, 9, 40), 7, np.float32)
        context = clattn._context.default_context()
        before = context.bytes_copied
        self.close(clattn.attention(rows_first, self.key, self.value), reference(self.query, self.key, self.value))
        self.close(clattn.attention(query, key, value), reference(query, key, value))
        self.close(clattn.attention(query[:, :, ::-2], key[:, :, ::-1], value), reference(query[:, :, ::-2],
                                                                                       key[:, :, ::-1], value))
        clattn.attention(self.query, self.key, self.value, out=wide[..., 3:15])
        self.close(wide[..., 3:15], reference(self.query, self.key, self.value))
        self.assertTrue((wide[..., :3] == 7).all() and (wide[..., 15:] == 7).all())
        if "used where it lies" in clattn.explain((2, 4, 9, 16)):
            self.assertEqual(context.bytes_copied, before)

    def test_masks_of_the_last_keys_and_of_bits(self):
        three, mask = (self.query, self.key, self.value), normal(2, 1, 9, 9) > 0
        right = reference(*three, mask=np.concatenate([np.ones((2, 1, 9, 4), bool), mask], -1))
        bits = np.packbits(np.pad(mask, ((0, 0),) * 3 + ((0, 23),)), axis=-1, bitorder="little").view("<u4")
        for kind in mask, bits, bits.repeat(4, 1), bits[..., ::-1, :].copy()[..., ::-1, :]:
            for _ in range(2):  # the second time by what the first one prepared
                self.close(clattn.attention(*three, mask=kind, mask_first_key=4), right)
        bias = normal(9, 9)
        self.close(clattn.attention(*three, bias=bias, mask_first_key=4),
                   reference(*three, bias=np.pad(bias, ((0, 0), (4, 0)))))
        with self.assertRaisesRegex(clattn.InvalidArgument, "mask_first_key 4: needs a mask or a bias"):
            clattn.attention(*three, mask_first_key=4)
        with self.assertRaisesRegex(clattn.InvalidShape, "mask_first_key 14: must be 0 to the 13 keys"):
            clattn.attention(*three, mask=mask, mask_first_key=14)
        with self.assertRaisesRegex(clattn.InvalidShape, "mask: has shape"):
            clattn.attention(*three, mask=bits[..., :0], mask_first_key=4)

    def test_masks(self):
        rows, keys = np.arange(9)[:, None], np.arange(13)[None, :]
        mask = normal(2, 1, 9, 13) > 0
        mask[1, 0, 4] = False
        bias = normal(4, 1, 13, seed=9)
        three = self.query, self.key, self.value
        self.close(clattn.attention(*three, mask=mask), reference(*three, mask=mask))
        self.assertTrue((clattn.attention(*three, mask=mask)[1, :, 4] == 0).all())
        self.close(clattn.attention(*three, bias=bias), reference(*three, bias=bias))
        self.close(clattn.attention(*three, causal="top-left"), reference(*three, mask=keys <= rows))
        self.close(clattn.attention(*three, causal="bottom-right"), reference(*three, mask=keys <= rows + 4))
        self.close(clattn.attention(*three, window=2, alignment="top-left"),
                   reference(*three, mask=(keys <= rows) & (keys >= rows - 2)))
        self.close(clattn.attention(*three, window=(None, 1), alignment="top-left"),
                   reference(*three, mask=keys <= rows + 1))
        self.close(clattn.attention(*three, causal="bottom-right", offsets=[3, 1]),
                   reference(*three, mask=keys <= rows + np.array([3, 1])[:, None, None, None]))
        self.close(clattn.attention(*three, key_lengths=np.array([5, 13])),
                   reference(*three, mask=keys < np.array([5, 13])[:, None, None, None]))

    def test_numbers_of_the_formula(self):
        three, sinks, slopes = (self.query, self.key, self.value), normal(4, seed=3), np.array([0.5, 0.25, 0.125, 1])
        self.close(clattn.attention(*three, softcap=0.7), reference(*three, softcap=0.7))
        self.close(clattn.attention(*three, scale=-0.5), reference(-0.5 * np.sqrt(16) * self.query, *three[1:]))
        self.close(clattn.attention(*three, sinks=sinks), reference(*three, sinks=sinks))
        distance = np.abs(np.arange(9)[:, None] - np.arange(13)[None, :])
        self.close(clattn.attention(*three, slopes=slopes, alignment="top-left"),
                   reference(*three, bias=-slopes[:, None, None] * distance))

    @unittest.skipUnless(HAS_FLOAT64, "the device has no float64")
    def test_slopes_and_sinks_in_float64(self):
        three = [x.astype(np.float64) for x in (self.query, self.key, self.value)]
        slopes, sinks = np.array([1.1, 2.3, 0.7, 0.9]), np.array([0.1, 1.3, -0.2, 0.7])
        distance = np.abs(np.arange(9)[:, None] - np.arange(13)[None, :])
        self.close(clattn.attention(*three, slopes=slopes, sinks=sinks, alignment="top-left"),
                   reference(*three, bias=-slopes[:, None, None] * distance, sinks=sinks), 1e-13)
        self.close(clattn.attention(*three, slopes=slopes.astype(np.float32), sinks=sinks, alignment="top-left"),
                   reference(*three, bias=-slopes.astype(np.float32).astype(np.float64)[:, None, None] * distance,
                             sinks=sinks), 1e-13)
        dout = normal(2, 4, 9, 12, dtype=np.float64, seed=5)
        ends = [(reference(*three, sinks=sinks + step) * dout).sum((0, 2, 3)) for step in (1e-6, -1e-6)]
        found = clattn.gradients(*three, dout, of=("sinks",), sinks=sinks)["sinks"]
        self.close(found, (ends[0] - ends[1]) / 2e-6, 1e-8)

    def test_more_results(self):
        out, lse, weights = clattn.attention(self.query, self.key, self.value, return_lse=True,
                                             return_weights="softmax")
        self.close(weights @ np.repeat(self.value, 2, 1), out.astype(np.float64))
        scores = self.query.astype(np.float64) @ np.repeat(self.key, 2, 1).swapaxes(-1, -2) / 4
        self.close(lse, np.log(np.exp(scores).sum(-1)))

    def queue_of_pyopencl(self):
        try:
            import pyopencl
            import pyopencl.array
            platforms = pyopencl.get_platforms()
        except (ImportError, RuntimeError) as error:
            self.skipTest(f"pyopencl: {error}")
        return pyopencl, pyopencl.CommandQueue(pyopencl.Context(platforms[0].get_devices()[:1]))

    def test_arrays_of_pyopencl(self):
        pyopencl, queue = self.queue_of_pyopencl()
        three = [pyopencl.array.to_device(queue, x) for x in (self.query, self.key, self.value)]
        mask = normal(9, 13) > 0
        mask[:, 0] = True
        out, lse = clattn.attention(*three, mask=pyopencl.array.to_device(queue, mask.astype(np.uint8)),
                                    return_lse=True)
        self.close(out.get(), reference(self.query, self.key, self.value, mask=mask))
        self.assertEqual(lse.shape, (2, 4, 9))
        whole = pyopencl.array.zeros(queue, (2, 4, 9, 24), np.float32)
        clattn.attention(three[0] * 2, *three[1:], causal="top-left", strategy="staged", out=whole[..., 4:16])
        seen = np.tri(9, 13, dtype=bool)
        self.close(whole.get()[..., 4:16], reference(2 * self.query, self.key, self.value, mask=seen))
        self.assertTrue((whole.get()[..., :4] == 0).all() and (whole.get()[..., 16:] == 0).all())
        with self.assertRaises(clattn.InvalidArgument):
            clattn.attention(*three, key_lengths=[1, 2])
        columns_apart = pyopencl.array.zeros(queue, (2, 4, 12, 9), np.float32)
        clattn.attention(*three, out=columns_apart.transpose((0, 1, 3, 2))).finish()
        self.close(columns_apart.get().swapaxes(2, 3), reference(self.query, self.key, self.value))

    def test_memory_of_two_kinds_is_refused(self):
        pyopencl, queue = self.queue_of_pyopencl()

        def there(array, queue=queue):
            return pyopencl.array.to_device(queue, array)

        host, other = (self.query, self.key, self.value), pyopencl.CommandQueue(pyopencl.Context([queue.device]))
        three, out = [there(x) for x in host], np.zeros((2, 4, 9, 12), np.float32)
        for first, alien in ((three, lambda x: x), (host, there), (three, lambda x: there(x, other))):
            for name, call in (
                    ("key", lambda: clattn.attention(first[0], alien(self.key), first[2])),
                    ("value", lambda: clattn.attention(*first[:2], alien(self.value))),
                    ("mask", lambda: clattn.attention(*first, mask=alien(np.ones((9, 13), np.uint8)))),
                    ("bias", lambda: clattn.attention(*first, bias=alien(np.ones((9, 13), np.float32)))),
                    ("slopes",
                     lambda: clattn.attention(*first, slopes=alien(np.ones(4, np.float32)), alignment="top-left")),
                    ("sinks", lambda: clattn.attention(*first, sinks=alien(np.ones(4, np.float32)))),
                    ("out", lambda: clattn.attention(*first, out=alien(out)))):
                with self.assertRaisesRegex(clattn.InvalidArgument, f"^{name}: "):
                    call()

    def test_one_column_has_any_stride(self):
        query, key, value = (np.ones((1, 1, 3, 8), np.float32)[..., :1] * number for number in (1, 2, 3))
        wide = [np.repeat(x, 5, -1)[..., 2:3] for x in (query, key, value)]
        wide = [np.lib.stride_tricks.as_strided(x, strides=x.strides[:3] + (20,)) for x in wide]
        out = np.lib.stride_tricks.as_strided(np.zeros((1, 1, 3, 5), np.float32), (1, 1, 3, 1), (60, 60, 20, 20))
        clattn.attention(*wide, out=out)
        self.close(out, reference(query, key, value))
        # NumPy gives the axis that is added a stride of 0.
        added = [np.ascontiguousarray(x[..., 0])[..., None] for x in (query, key, value)]
        self.close(clattn.attention(*added), reference(query, key, value))

    def test_a_growing_cache(self):
        for keys in (1, 100, 127, 128, 129, 300):
            three = normal(1, 2, 1, 8), normal(1, 1, keys, 8, seed=1), normal(1, 1, keys, 8, seed=2)
            self.close(clattn.attention(*three), reference(*three))

    def test_what_a_matrix_unit_may_round(self):
        three = self.query, self.key, self.value
        half = [x.astype(np.float16) for x in three]
        self.close(clattn.attention(*half, allow_rounded_weights=True), reference(*half), 4e-3)
        self.close(clattn.attention(*three, allow_tf32=True), reference(*three), 4e-3)
        plan = clattn.Plan(half[0].shape, half[1].shape, type="float16", head_dim_v=12, allow_rounded_weights=True)
        self.assertIn("float16, rounded weights", plan.explanation)
        self.close(plan(*half), reference(*half), 4e-3)
        self.assertIn("float32 or tf32", clattn.explain((1, 8, 128, 64), allow_tf32=True))
        for given, option in ((three, "allow_rounded_weights"), (half, "allow_tf32")):
            with self.assertRaisesRegex(clattn.InvalidArgument, f"{option} 1: needs type"):
                clattn.attention(*given, **{option: True})
            with self.assertRaisesRegex(clattn.InvalidArgument, f"{option} 1: needs type"):
                clattn.Plan(given[0].shape, type=given[0].dtype.name, **{option: True})

    def test_a_plan_is_what_its_calls_take(self):
        plan = clattn.Plan((1, 2, 1, 8), (1, 2, 100, 8))
        self.assertIn("128 keys", plan.explanation)  # while a cache grows
        for shape in ((2, 9, 16), (2, 4, 9, 16.5)):
            with self.assertRaises(clattn.Error):
                clattn.Plan(shape)
        explained = clattn.explain((1, 2, 9, 16), causal="top-left", window=[2, 0], always_visible_keys=1, dropout=0.1)
        self.assertIn("causal top-left, window, dropout", explained)

    def test_plan(self):
        plan = clattn.Plan(self.query.shape, self.key.shape, head_dim_v=12, softcap=0.7, causal="top-left")
        self.assertIn("causal top-left, softcap", plan.explanation)
        seen = np.tri(9, 13, dtype=bool)
        self.close(plan(self.query, self.key, self.value),
                   reference(self.query, self.key, self.value, seen, softcap=0.7))
        mask = seen & (np.arange(13) != 1)
        self.close(plan(self.query, self.key, self.value, mask=mask),
                   reference(self.query, self.key, self.value, mask, softcap=0.7))
        with self.assertRaises(clattn.InvalidShape):
            plan(self.query[:1], self.key, self.value)

    def test_what_is_refused(self):
        three, frozen = (self.query, self.key, self.value), np.zeros((2, 4, 9, 12), np.float32)
        frozen.flags.writeable = False
        for error, text, call in (
                (clattn.InvalidArgument, 'causal True: must be "top-left"',
                 lambda: clattn.attention(*three, causal=True)),
                (clattn.InvalidShape, "mask: has shape (2, 9)",
                 lambda: clattn.attention(*three, mask=np.ones((2, 9), bool))),
                (clattn.InvalidArgument, "must be bool", lambda: clattn.attention(*three, mask=np.ones((9, 13)))),
                (clattn.InvalidShape, "head_dim: query has 16",
                 lambda: clattn.attention(self.query, self.key[..., :8], self.value)),
                (clattn.InvalidArgument, "a list is no array", lambda: clattn.attention([[1.0]], [[1.0]], [[1.0]])),
                (clattn.InvalidArgument, "type int64", lambda: clattn.attention(*(x.astype(int) for x in three))),
                (clattn.InvalidArgument, "byte order", lambda: clattn.attention(self.query.astype(">f4"), *three[1:])),
                (clattn.InvalidShape, "out: is float32",
                 lambda: clattn.attention(*three, out=np.empty((2, 4, 9, 13), np.float32))),
                (clattn.InvalidShape, "key_lengths: has 3 numbers",
                 lambda: clattn.attention(*three, key_lengths=[1, 2, 3])),
                (clattn.InvalidArgument, "out: is read-only", lambda: clattn.attention(*three, out=frozen)),
                (clattn.InvalidArgument, "out: is read-only",
                 lambda: clattn.attention(*three, out=Protocol(frozen, "__array_interface__"))),
                (clattn.InvalidArgument, "alignment", lambda: clattn.attention(*three, window=3)),
                (clattn.InvalidArgument, "must be the same",
                 lambda: clattn.attention(*three, causal="top-left", alignment="bottom-right")),
                (clattn.InvalidArgument, "there is none; there are:",
                 lambda: clattn.attention(*three, strategy="fastest")),
                (clattn.InvalidArgument, "key_lengths 4294967301: must fit 32 bits",
                 lambda: clattn.attention(*three, key_lengths=[5, 2**32 + 5])),
                (clattn.InvalidArgument, "key_lengths 2.5: must be an integer",
                 lambda: clattn.attention(*three, key_lengths=[5, 2.5])),
                (clattn.InvalidArgument, "offsets 1.0: must be",
                 lambda: clattn.attention(*three, offsets=np.ones(2), causal="bottom-right")),
                (clattn.InvalidArgument, "window [1, 2, 3]: must be",
                 lambda: clattn.attention(*three, window=[1, 2, 3], alignment="top-left")),
                (clattn.InvalidArgument, "window 1.0: must be an integer",
                 lambda: clattn.attention(*three, window=1.0, alignment="top-left")),
                (clattn.InvalidArgument, "always_visible_keys 18446744073709551619: must fit 64 bits",
                 lambda: clattn.attention(*three, window=1, alignment="top-left", always_visible_keys=2**64 + 3)),
                (clattn.InvalidArgument, "causal ['top-left']: must be",
                 lambda: clattn.attention(*three, causal=["top-left"])),
                (clattn.InvalidArgument, "softcap", lambda: clattn.attention(*three, softcap=-1.0)),
                (clattn.InvalidArgument, "softcap 'much': must be a real number",
                 lambda: clattn.attention(*three, softcap="much")),
                (clattn.InvalidArgument, "scale 'a'", lambda: clattn.attention(*three, scale="a")),
                (clattn.Error, "query_heads 4",
                 lambda: clattn.attention(self.query, normal(2, 3, 13, 16), normal(2, 3, 13, 12)))):
            with self.assertRaises(error) as caught:
                call()
            self.assertIn(text, str(caught.exception))
            self.assertIsInstance(caught.exception, clattn.Error)
        self.assertTrue((frozen == 0).all())

    def test_the_interpreter_runs_on_during_a_call(self):
        """Calls give the interpreter's lock away: else this thread would stand still for as long as they take."""
        three = normal(1, 8, 1024, 64), normal(1, 8, 1024, 64, seed=1), normal(1, 8, 1024, 64, seed=2)
        clattn.attention(*three)
        began, ended, turns = threading.Event(), threading.Event(), 0

        def work():
            began.set()
            for _ in range(3):
                clattn.attention(*three)
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        began.wait()
        while not ended.wait(0.001):
            turns += 1
        thread.join()
        self.assertGreater(turns, 6)

    def test_threads(self):
        wrong = []

        def work(number):
            three = normal(1, 2, 5 + number, 8), normal(1, 2, 7, 8, seed=number), normal(1, 2, 7, 8, seed=99)
            right = reference(*three)
            for _ in range(20):
                if np.abs(clattn.attention(*three) - right).max() > 2e-6:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(wrong, [])

    def test_arrays_are_not_kept(self):
        kept = []
        for rows in range(1, 40):
            three = [normal(1, 1, rows, 8, seed=seed) for seed in range(3)]
            out = clattn.attention(*three, bias=np.zeros((rows, rows), np.float32), key_lengths=[rows])
            kept += [weakref.ref(array) for array in (*three, out)]
        del three, out
        gc.collect()
        self.assertEqual(sum(reference() is not None for reference in kept), 0)

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "no /proc/self/statm, which says what is resident")
    def test_memory_is_given_back(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as numbers:
                return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        three = normal(1, 1, 3, 8), normal(1, 1, 3, 8), normal(1, 1, 3, 8)

        def after(calls):
            for _ in range(calls):
                clattn.attention(*three)
            gc.collect()
            return resident()

        # Allocators take room at times, which they keep; what leaks grows in each part.
        part = 25000 if "CLATTN_TEST_LONG" in os.environ else 1250
        had = [after(500)] + [after(part) for _ in range(4)]
        # a buffer that is kept would be more
        self.assertLess(min(second - first for first, second in zip(had, had[1:])), 512 << 10, had)


if __name__ == "__main__":
    unittest.main()
