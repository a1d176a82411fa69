"""clattn.key_sums against NumPy in float64: sums of weights over the last rows, and largest logits."""
import unittest

import numpy as np

import clattn

HAS_FLOAT64 = next(device["float64"] for device in clattn.devices() if device["chosen"])
BATCH, HEADS, KV_HEADS, ROWS, KEYS, COLUMNS = 2, 4, 2, 9, 13, 16


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def expected(query, key, rows=None, allowed=True, bias=0.0, softcap=None, sinks=None,
             scale=1 / np.sqrt(COLUMNS)):
    """(sums, largest logits, lse) by the definition, of four axes."""
    query, key = (np.asarray(x, dtype=np.float64) for x in (query, key))
    logits = query @ key.repeat(query.shape[1] // key.shape[1], 1).swapaxes(-1, -2) * scale
    logits = (softcap * np.tanh(logits / softcap) if softcap else logits) + bias
    logits = np.where(allowed, logits, -np.inf)
    total = np.exp(logits).sum(-1, keepdims=True) + (0 if sinks is None else np.exp(np.reshape(sinks, (-1, 1, 1))))
    weights = np.exp(logits) / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        return weights[:, :, -(rows or weights.shape[2]):].sum(2), logits.max((2, 3)), np.log(total[..., 0])


class Case(unittest.TestCase):
    def setUp(self):
        self.query, self.key = normal(BATCH, HEADS, ROWS, COLUMNS), normal(BATCH, KV_HEADS, KEYS, COLUMNS, seed=1)
        self.i, self.j = np.ogrid[:ROWS, :KEYS]

    def close(self, found, right, tolerance=1e-5):
        self.assertEqual(np.shape(found), np.shape(right))
        self.assertTrue(np.array_equal(np.isneginf(found), np.isneginf(right)))
        found, right = (np.where(np.isneginf(x), 0.0, np.asarray(x, dtype=np.float64)) for x in (found, right))
        self.assertLessEqual(np.abs(found - right).max(initial=0), tolerance)

    def refused(self, text, call, error=clattn.InvalidArgument):
        with self.assertRaisesRegex(error, text):
            call()


class Sums(Case):
    def test_what_is_returned(self):
        lse = clattn.attention(self.query, self.key, self.key, return_lse=True)[1]
        for rows in None, 1, 4, 1000:
            right = expected(self.query, self.key, rows)
            sums = clattn.key_sums(self.query, self.key, rows=rows, lse=lse)
            self.assertEqual(sums.dtype, np.float32)
            self.close(sums, right[0])
            self.assertTrue(np.array_equal(clattn.key_sums(self.query, self.key, rows=rows), sums))
        largest = clattn.key_sums(self.query, self.key, return_sums=False, return_max_logit=True)
        self.assertEqual(largest.dtype, np.float32)
        self.close(largest, right[1])

    def test_an_lse_of_more_keys(self):
        lse = expected(self.query, self.key)[2].astype(np.float32)
        parts = [clattn.key_sums(self.query, self.key[:, :, part], lse=lse) for part in (slice(0, 5), slice(5, KEYS))]
        self.close(np.concatenate(parts, -1), expected(self.query, self.key)[0])

    def test_all_options(self):
        """In float64, where the device has it: lse, in float32, is another call's, which must have them all."""
        i, j = self.i, self.j
        dtype = np.float64 if HAS_FLOAT64 else np.float32
        self.query, self.key = self.query.astype(dtype), self.key.astype(dtype)
        bias, sinks = normal(HEADS, 1, KEYS - 1, seed=4), np.linspace(-1, 1, HEADS, dtype=np.float32)
        slopes, mask = np.linspace(0.1, 0.5, HEADS, dtype=np.float32), normal(BATCH, 1, ROWS, KEYS - 1, seed=5) > -1
        mask[0, 0, 4] = False  # a row that sees one key
        bits = np.zeros((BATCH, 1, ROWS, 1), np.uint32)
        for key in range(KEYS - 1):
            bits[..., 0] |= mask[..., key].astype(np.uint32) << key
        at, low, high = np.reshape([1, 4], (2, 1, 1, 1)), i % 3 // 2, i + 7
        allowed = (j >= i + at - 6) & (j <= i + at) & (j < np.reshape([KEYS, 8], (2, 1, 1, 1))) | (j < 1)
        allowed &= np.pad(mask, ((0, 0), (0, 0), (0, 0), (1, 0)), constant_values=True) & (j >= low) & (j < high)
        options = {"sinks": sinks, "softcap": 1.5, "scale": 0.5}
        for rows in None, 3:
            found = clattn.key_sums(self.query, self.key, rows=rows, mask=bits, bias=bias, mask_first_key=1,
                                    slopes=slopes, causal="bottom-right", offsets=[1, 4], window=6,
                                    always_visible_keys=1, key_lengths=[KEYS, 8], row_low=low[:, 0],
                                    row_high=high[:, 0], return_max_logit=True, **options)
            right = expected(self.query, self.key, rows, allowed, **options, bias=np.pad(
                bias, ((0, 0), (0, 0), (1, 0))) - slopes[:, None, None] * np.abs(i + at - j))
            for one, other in zip(found, right):
                self.assertEqual(one.dtype, dtype)
                self.close(one, other)

    def test_fewer_axes_and_strides(self):
        sums = clattn.key_sums(self.query, self.key)
        self.assertTrue(np.array_equal(clattn.key_sums(self.query[1], self.key[1]), sums[1]))
        self.close(clattn.key_sums(self.query[1, 3], self.key[1, 1]), sums[1, 3], 1e-6)
        alone = {"return_sums": False, "return_max_logit": True}
        self.assertTrue(np.array_equal(clattn.key_sums(self.query[1], self.key[1], **alone),
                                       clattn.key_sums(self.query, self.key, **alone)[1]))
        turned = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (self.query, self.key)]
        self.assertTrue(np.array_equal(clattn.key_sums(*turned), sums))


class Sequences(Case):
    def test_packed_with_texts(self):
        """Three sequences, of which the second has no rows; with batch and without."""
        query, key = normal(1, HEADS, 10, COLUMNS), normal(1, KV_HEADS, 12, COLUMNS, seed=1)
        cu_query, cu_key = [0, 3, 3, 10], [0, 4, 7, 12]
        for given in (query, key), (query[0], key[0]):
            sums, largest = clattn.key_sums(*given, rows=2, cu_query=cu_query, cu_key=cu_key, causal="bottom-right",
                                            score="s + SCALAR(rate) * TO_NUMBER(j)", mask="j != 1",
                                            inputs={"rate": 0.25}, return_max_logit=True)
            self.assertEqual((sums.shape, largest.shape), ((3, HEADS, 5), (3, HEADS)))
            self.assertTrue((sums[1] == 0).all() and np.isneginf(largest[1]).all() and (sums[0, :, 4] == 0).all())
            for n, rows, keys in ((0, 3, 4), (2, 7, 5)):
                i, j = np.ogrid[:rows, :keys]
                right = expected(query[:, :, cu_query[n]:cu_query[n + 1]], key[:, :, cu_key[n]:cu_key[n + 1]], 2,
                                 allowed=(j <= i + keys - rows) & (j != 1), bias=0.25 * j)
                self.close(sums[n, :, :keys], right[0][0])
                self.close(largest[n], right[1][0])

    def test_pages_of_codes(self):
        """Two sequences of 11 and 6 keys, in pages of 4 of a pool; one row, as decoders plan it: for more keys than
        there are."""
        codes, scales = clattn.quantise_rows(normal(6, KV_HEADS, 4, COLUMNS, seed=3), "u8")
        pool = clattn.dequantise_rows(codes, "u8", scales)
        table = np.array([[5, 0, 2], [1, 4, -1]], np.int32)
        key = pool[np.maximum(table, 0)].swapaxes(1, 2).reshape(2, KV_HEADS, 12, COLUMNS)[:, :, :11]
        query = normal(2, HEADS, 1, COLUMNS, seed=5)
        found = clattn.key_sums(query, codes, page_table=table, key_lengths=[11, 6], key_type="u8", key_scales=scales,
                                return_max_logit=True)
        for one, other in zip(found, expected(query, key, allowed=np.arange(11) < np.reshape([11, 6], (2, 1, 1, 1)))):
            self.close(one, other)


class OtherPackages(Case):
    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")
        query, key = map(torch.from_numpy, (self.query, self.key))
        found = clattn.key_sums(query, key, rows=4)
        self.assertIsInstance(found, torch.Tensor)
        self.assertTrue(np.array_equal(found, clattn.key_sums(self.query, self.key, rows=4)))
        asks = query.clone().requires_grad_()
        self.refused("query: requires a gradient, which clattn.key_sums has not; call this",
                     lambda: clattn.key_sums(asks, key))
        with torch.no_grad():
            self.assertTrue(torch.equal(clattn.key_sums(asks, key), clattn.key_sums(query, key)))


class Refused(Case):
    def test_values(self):
        call = lambda **options: clattn.key_sums(self.query, self.key, **options)
        for rows in 0, -3:
            self.refused(f"^rows {rows}: must be 1 or more, or None", lambda: call(rows=rows))
        self.refused("^rows 2.5: must be an integer", lambda: call(rows=2.5))
        self.refused("^rows True: must be an integer", lambda: call(rows=True))
        self.refused("^rows 2: is what sums are over", lambda: call(rows=2, return_sums=False, return_max_logit=True))
        self.refused("^return_sums False: nothing", lambda: call(return_sums=False))
        self.refused("^mask_first_key 2: needs a mask", lambda: call(mask_first_key=2))
        self.refused("^causal True: must be", lambda: call(causal=True))
        self.refused("^is_causal: .*top-left", lambda: call(is_causal=True))
        self.refused(r"key_sums\(\) got an unexpected keyword argument 'dropout'", lambda: call(dropout=0.1), TypeError)

    def test_shapes_and_types(self):
        call, shape = clattn.key_sums, clattn.InvalidShape
        lse = clattn.attention(self.query, self.key, self.key, return_lse=True)[1]
        with_lse = lambda lse: call(self.query, self.key, lse=lse)
        self.refused(r"^lse: is float32 of shape \(2, 4, 8\); must be float32 of shape \(2, 4, 9\)",
                     lambda: with_lse(lse[:, :, 1:]), shape)
        self.refused("^lse: is float64", lambda: with_lse(lse.astype(np.float64)), shape)
        self.refused("^lse: has shape .* must be .batch, heads, rows.", lambda: with_lse(lse[..., None]), shape)
        self.refused("^batch: query has 2, key 1; ", lambda: call(self.query, self.key[:1]), shape)
        self.refused("^head_dim: query has 16 columns, key 8", lambda: call(self.query, self.key[..., :8]), shape)
        self.refused("^query: type int32", lambda: call(self.query.astype(np.int32), self.key))
        self.refused("^key: type int32", lambda: call(self.query, self.key.astype(np.int32)))
        self.refused("^key: a list is no array", lambda: call(self.query, [[1.0]]))
        self.refused(r"kv_heads 3", lambda: call(self.query, normal(2, 3, 5, 16)), clattn.Error)
        self.refused(r"^mask: has shape \(3, 13\)", lambda: call(self.query, self.key, mask=np.ones((3, 13), bool)),
                     shape)
        self.refused("^mask: type float32", lambda: call(self.query, self.key, mask=np.ones((9, 13), np.float32)))


if __name__ == "__main__":
    unittest.main()
