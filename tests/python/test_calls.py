"""Calls on NumPy's arrays beside plain attention: gradients, packed sequences, pages, codes, row ranges, merging,
caches; and what others' words for options are answered."""
import unittest

import numpy as np

import clattn


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


class Case(unittest.TestCase):
    def close(self, found, right, tolerance=1e-6):
        self.assertEqual(np.shape(found), np.shape(right))
        self.assertLessEqual(np.abs(np.asarray(found, dtype=np.float64) - right).max(initial=0), tolerance)

    def refused(self, text, call, error=clattn.InvalidArgument):
        with self.assertRaisesRegex(error, text):
            call()


class Texts(Case):
    """Scores and masks as texts, in the words of docs/scores.md."""

    def test_score_and_mask(self):
        query, key, value = normal(1, 2, 9, 16), normal(1, 2, 20, 16, seed=1), normal(1, 2, 20, 8, seed=2)
        table, (h, i, j) = normal(2, 40, seed=3), np.ogrid[:2, :9, :20]
        for rate in 0.5, 0.25:  # the second compiles nothing
            found = clattn.attention(query, key, value, score="s * SCALAR(rate) + LOAD(table, h * 40 + j - i + 9)",
                                     mask="j <= i + 8 && (j + i) % 3 != 0", inputs={"table": table, "rate": rate})
            scores = query.astype(np.float64) @ key.swapaxes(-1, -2) / 4 * rate + table[h, j - i + 9]
            weights = np.exp(np.where((j <= i + 8) & ((j + i) % 3 != 0), scores, -np.inf))
            self.close(found, weights / weights.sum(-1, keepdims=True) @ value, 3e-6)
        whole = "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n    return s;\n}\n"
        self.close(clattn.attention(query, key, value, score=whole), clattn.attention(query, key, value))

    def test_what_is_wrong_is_said(self):
        q = normal(1, 1, 4, 8)
        self.refused(r"code.source:3:.*tabel", lambda: clattn.attention(q, q, q, score="s + tabel"), clattn.Error)
        self.refused(r"inputs \['rate'\]: are for", lambda: clattn.attention(q, q, q, inputs={"rate": 1.0}))
        self.refused(r"inputs\['x'\]: type", lambda: clattn.attention(
            q, q, q, score="s + LOAD(x, j)", inputs={"x": np.zeros(4, dtype=np.int64)}))


class Sequences(Case):
    def setUp(self):
        self.three = normal(1, 4, 10, 16), normal(1, 2, 12, 16, seed=1), normal(1, 2, 12, 8, seed=2)

    def test_packed(self):
        query, key, value = self.three
        cu_query, cu_key = [0, 3, 3, 10], np.array([0, 4, 7, 12])
        out, lse = clattn.attention(*self.three, cu_query=cu_query, cu_key=cu_key, causal="bottom-right",
                                    return_lse=True)
        self.assertEqual((out.shape, lse.shape), ((1, 4, 10, 8), (1, 4, 10)))
        for i in 0, 2:
            rows, keys = slice(cu_query[i], cu_query[i + 1]), slice(cu_key[i], cu_key[i + 1])
            right = clattn.attention(query[:, :, rows], key[:, :, keys], value[:, :, keys], causal="bottom-right",
                                     return_lse=True)
            for found, other in zip((out, lse), right):
                self.assertTrue(np.array_equal(found[:, :, rows], other))
        without_batch = clattn.attention(*[x[0] for x in self.three], cu_query=cu_query, cu_key=cu_key,
                                         causal="bottom-right")
        self.assertTrue(np.array_equal(without_batch, out[0]))
        mask = normal(3, 1, 7, 5) > 0
        masked = clattn.attention(*self.three, cu_query=cu_query, cu_key=cu_key, mask=mask)
        self.assertTrue(np.array_equal(masked[:, :, 3:10], clattn.attention(query[:, :, 3:10], key[:, :, 7:12],
                                                                            value[:, :, 7:12], mask=mask[2:])))

    def test_packed_is_refused(self):
        for seams in ([0, 11], [1, 10], [0, 5, 3], [], [0, 2.5], [0, True]):
            self.refused("^cu_query ", lambda: clattn.attention(*self.three, cu_query=seams))
        self.refused("^cu_key: needs cu_query", lambda: clattn.attention(*self.three, cu_key=[0, 12]))
        self.refused("^cu_key: has 2", lambda: clattn.attention(*self.three, cu_query=[0, 3, 10], cu_key=[0, 12]),
                     clattn.InvalidShape)
        two = [np.concatenate([x, x]) for x in self.three]
        self.refused("^query: has batch 2", lambda: clattn.attention(*two, cu_query=[0, 10]), clattn.InvalidShape)

    def pages(self):
        """Two sequences of 11 and 6 keys, in pages of 4 of a pool; and the same dense."""
        key, value = normal(2, 2, 11, 32, seed=3), normal(2, 2, 11, 32, seed=4)
        table = np.array([[5, 0, 2], [1, 4, -1]], np.int32)
        pools = [np.full((6, 2, 4, 32), np.nan, np.float32) for _ in range(2)]
        for pool, dense in zip(pools, (key, value)):
            for b, length in enumerate((11, 6)):
                for j in range(length):
                    pool[table[b, j // 4], :, j % 4] = dense[b, :, j]
        return key, value, table, pools

    def test_pages(self):
        key, value, table, pools = self.pages()
        for rows in 1, 3:
            query = normal(2, 4, rows, 32, seed=5)
            right = clattn.attention(query, key, value, key_lengths=[11, 6], causal="bottom-right")
            for given in (table, table.astype(np.int64), table.tolist(), np.ascontiguousarray(table.T).T):
                out = clattn.attention(query, *pools, page_table=given, key_lengths=[11, 6], causal="bottom-right")
                self.close(out, right)
            line = clattn.attention(query, *pools, page_table=[5, 0, 2, 1, 4], page_starts=[0, 3, 5],
                                    key_lengths=[11, 6], causal="bottom-right")
            self.close(line, right)
            by_tokens = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in pools]
            self.close(clattn.attention(query, *by_tokens, page_table=table, key_lengths=[11, 6],
                                        causal="bottom-right"),
                       right)
        self.refused("needs key_lengths", lambda: clattn.attention(query, *pools, page_table=table))
        self.refused("page_table: has 2 pages a sequence; 11 keys need 3", lambda: clattn.attention(
            query, *pools, page_table=table[:, :2], key_lengths=[11, 6]), clattn.InvalidShape)
        self.refused("page_table", lambda: clattn.attention(query, *pools, page_table=table[:1], key_lengths=[11, 6]),
                     clattn.InvalidShape)
        self.refused("page_starts: needs", lambda: clattn.attention(query, key, value, page_starts=[0, 1, 2]))
        self.refused("page_table: type float64", lambda: clattn.attention(query, *pools, page_table=table * 1.0,
                                                                          key_lengths=[11, 6]))
        self.refused("32 bits",
                     lambda: clattn.attention(query, *pools, page_table=table.astype(np.int64) + 2**32,
                                              key_lengths=[11, 6]))
        self.refused("page", lambda: clattn.attention(query, *pools, page_table=table + 1, key_lengths=[11, 6]),
                     clattn.Error)

    def test_matrices_of_pages_have_the_keys_of_the_call(self):
        """A plan is for more keys where rows are few: weights, masks and biases have those that there are."""
        key, value, table, pools = self.pages()
        query, mask = normal(2, 4, 1, 32, seed=5), normal(2, 4, 1, 11, seed=6) > -0.5
        for said in {"bias": normal(1, 4, 1, 11, seed=7), "mask": mask}, {"mask": mask, "return_weights": "softmax"}:
            right = clattn.attention(query, key, value, key_lengths=[11, 6], **said)
            found = clattn.attention(query, *pools, page_table=table, key_lengths=[11, 6], **said)
            if "return_weights" in said:
                self.assertEqual(found[1].shape, (2, 4, 1, 11))
                self.close(found[1], right[1])
                found, right = found[0], right[0]
            self.close(found, right)

    def test_a_cache_that_grows_stays_planned(self):
        key, value, table, pools = self.pages()
        query = normal(2, 4, 1, 32, seed=5)
        for length in range(1, 7):
            out = clattn.attention(query, *pools, page_table=table, key_lengths=[length, length])
            self.close(out, clattn.attention(query, key[:, :, :length], value[:, :, :length]))

    def test_codes_in_pages(self):
        key, value, table, pools = self.pages()
        query = normal(2, 4, 1, 32, seed=5)
        right = clattn.attention(query, key, value, key_lengths=[11, 6])
        for kind, tolerance in (("q8_0", 0.02), ("q4_0", 0.3), ("q5_1", 0.2), ("mxfp4_ggml", 0.4)):
            codes = [clattn.quantise(np.nan_to_num(x), kind) for x in pools]
            self.assertEqual((codes[0].dtype, codes[0].shape[:3]), (np.uint8, (6, 2, 4)))
            out = clattn.attention(query, *codes, key_type=kind, value_type=kind, page_table=table, key_lengths=[11, 6])
            self.close(out, right, tolerance)
            back = [clattn.dequantise(x, kind) for x in codes]
            self.close(out, clattn.attention(query, *back, page_table=table, key_lengths=[11, 6]), 2e-6)
        self.refused("key_type 'q9': must be one of", lambda: clattn.attention(query, *codes, key_type="q9"))
        self.refused("q8_0 are bytes", lambda: clattn.attention(query, key, value, key_type="q8_0"))
        self.refused("whole blocks", lambda: clattn.attention(query, codes[0][..., :5], codes[1], key_type="q8_0",
                                                              value_type="q8_0"), clattn.InvalidShape)

    def test_codes_with_scales(self):
        query, key, value = normal(1, 4, 3, 32), normal(1, 2, 12, 32, seed=1), normal(1, 2, 12, 32, seed=2)
        right = clattn.attention(query, key, value)
        for kind, tolerance in (("int8", 0.02), ("e4m3", 0.1)):
            for groups in (12, 1), (12, 4), (1, 1), (3, 1):
                arrays = {}
                for name, x in (("key", key), ("value", value)):
                    rows, columns = 12 // groups[0], 32 // groups[1]
                    split = np.abs(x).reshape(1, 2, groups[0], rows, groups[1], columns)
                    scales = (split.max((3, 5)) / (127 if kind == "int8" else 448)).astype(np.float32)
                    each = np.repeat(scales, rows, 2)
                    arrays[name], arrays[name + "_scales"] = clattn.quantise(x, kind, scales=each), scales
                out = clattn.attention(query, key_type=kind, value_type=kind, **arrays)
                self.close(out, right, tolerance)
        self.refused("key_scales: has 5 for 12 rows", lambda: clattn.attention(
            query, **{**arrays, "key_scales": np.ones((1, 2, 5, 1), np.float32)}, key_type=kind, value_type=kind),
            clattn.InvalidShape)


    def test_scales_that_are_made(self):
        """u8, u4, mxfp8, nvfp4: append makes the bytes of quantise_rows, and attention reads what they say."""
        query, key, value = normal(2, 2, 1, 64), normal(2, 2, 6, 64, seed=1), normal(2, 2, 6, 64, seed=2)
        for kinds, whole in ((("u8", "nvfp4"), 0.01), (("u4", "mxfp8"), 1.0)):
            made = [clattn.quantise_rows(x, kind, columns=16, tensor_scale=whole if kind == "nvfp4" else 1.0)
                    for x, kind in zip((key, value), kinds)]
            caches = [(np.zeros_like(codes), clattn.Scales(*(np.zeros_like(x) if isinstance(x, np.ndarray) else x
                                                             for x in by))) for codes, by in made]
            said = {"key_type": kinds[0], "value_type": kinds[1], "key_scales": caches[0][1],
                    "value_scales": caches[1][1]}
            clattn.append(key, value, caches[0][0], caches[1][0], starts=[0, 0], **said)
            for (codes, by), (right, right_by) in zip(caches, made):
                np.testing.assert_array_equal(codes, right)
                np.testing.assert_array_equal(by.scales, right_by.scales)
                if by.zero_points is not None:
                    np.testing.assert_array_equal(by.zero_points, right_by.zero_points)
            back = [clattn.dequantise_rows(*codes[:1], kind, codes[1]) for codes, kind in zip(made, kinds)]
            out = clattn.attention(query, caches[0][0], caches[1][0], **said)
            self.close(out, clattn.attention(query, *back), 1e-5)
            self.refused("has zero points too", lambda: clattn.attention(
                query, caches[0][0], caches[1][0], **{**said, "key_scales": said["key_scales"].scales}))
            self.refused("has no zero points", lambda: clattn.attention(
                query, caches[0][0], caches[1][0],
                **{**said, "value_scales": clattn.Scales(said["value_scales"].scales, said["key_scales"].scales)}))

    def test_values_in_keys(self):
        key, _, table, pools = self.pages()
        query, short = normal(2, 4, 1, 32, seed=5), np.nan_to_num(pools[0])
        latent = lambda array, **more: clattn.attention(query, array, None, value_in_key=20, page_table=table,
                                                        key_lengths=[11, 6], strategy="plain", **more)
        right = clattn.attention(query, key, key[..., :20], key_lengths=[11, 6], strategy="plain")
        self.assertTrue(np.array_equal(latent(pools[0]), right))
        codes, scales = clattn.quantise_rows(short, "u8")
        back = clattn.dequantise_rows(codes, "u8", scales)
        self.close(latent(codes, key_type="u8", key_scales=scales), latent(back), 1e-5)
        for text, more in (("value_in_key 33: must be at most the columns of key, 32", {"value_in_key": 33}),
                           ("value_in_key 0: ", {"value_in_key": 0}), ("value: must be an array, or None", {}),
                           ("value_type: values that are columns", {"value_in_key": 4, "value_type": "u8"})):
            self.refused(text, lambda more=more: clattn.attention(query, key, None, **more), clattn.Error)
        self.refused("value: must be an array, or None", lambda: clattn.attention(query, key, key, value_in_key=4))

    def test_row_ranges(self):
        query, key, value = self.three
        low, high = np.arange(10, dtype=np.int32) - 2, np.arange(10, dtype=np.int64) + 2
        keys = np.arange(12)
        mask = (keys >= low[:, None]) & (keys < high[:, None])
        self.close(clattn.attention(*self.three, row_low=low, row_high=high), clattn.attention(*self.three, mask=mask))
        self.refused("must be given both", lambda: clattn.attention(*self.three, row_low=low))
        self.refused("does not broadcast", lambda: clattn.attention(*self.three, row_low=low[:4], row_high=high),
                     clattn.InvalidShape)


class Gradients(Case):
    """Against differences of float64's forward calls."""

    def setUp(self):
        self.three = normal(2, 4, 5, 8, dtype=np.float64), normal(2, 2, 6, 8, seed=1, dtype=np.float64), \
            normal(2, 2, 6, 4, seed=2, dtype=np.float64)
        self.dout, self.dlse = normal(2, 4, 5, 4, seed=3, dtype=np.float64), normal(2, 4, 5, seed=4)

    def check(self, names, dlse=None, **options):
        given = {**dict(zip(("query", "key", "value"), self.three)), **options}
        found = clattn.gradients(dout=self.dout, dlse=dlse, of=names, **given)
        self.assertEqual(list(found), list(names))

        def loss(**changed):
            out, lse = clattn.attention(return_lse=True, **{**given, **changed})
            return (out * self.dout).sum() + (0 if dlse is None else (lse.astype(np.float64) * dlse).sum())

        for name in names:
            if name == "scale":
                step = 1e-3 if dlse is not None else 1e-5
                slope = (loss(scale=given["scale"] + step) - loss(scale=given["scale"] - step)) / (2 * step)
                self.assertLessEqual(abs(found[name] - slope), 2e-3 * max(1, abs(slope)))
                continue
            self.assertEqual(found[name].shape, given[name].shape)
            step, direction = 1e-2, normal(*given[name].shape, seed=9, dtype=np.float64)
            ends = [loss(**{name: given[name] + sign * step * direction}) for sign in (1, -1)]
            slope, ours = (ends[0] - ends[1]) / (2 * step), (found[name] * direction).sum()
            self.assertLessEqual(abs(ours - slope), 2e-3 * max(1, abs(slope)), name)

    def test_each(self):
        self.check(("query", "key", "value"))
        self.check(("value", "query"), causal="top-left", softcap=2.0)
        bias, sinks, slopes = normal(4, 1, 6, dtype=np.float64), np.linspace(-1, 1, 4), np.linspace(0.1, 0.5, 4)
        self.check(("query", "key", "value", "bias", "sinks", "slopes", "scale"), dlse=self.dlse, bias=bias,
                   sinks=sinks, slopes=slopes, alignment="top-left", scale=0.3, key_lengths=[6, 4])

    def test_what_the_forward_call_gave(self):
        three, dout = [x.astype(np.float32) for x in self.three], self.dout.astype(np.float32)
        out, lse = clattn.attention(*three, causal="top-left", return_lse=True)
        for one, other in zip(clattn.gradients(*three, dout, causal="top-left").values(),
                              clattn.gradients(*three, dout, causal="top-left", out=out, lse=lse).values()):
            self.assertTrue(np.array_equal(one, other))
        self.refused("give both", lambda: clattn.gradients(*three, dout, out=out))
        single = clattn.gradients(*[x[0] for x in three], dout[0])
        self.assertEqual([x.shape for x in single.values()], [x[0].shape for x in three])

    def test_packed(self):
        query, key, value, dout = normal(1, 2, 9, 8), normal(1, 2, 9, 8, seed=1), normal(1, 2, 9, 8, seed=2), \
            normal(1, 2, 9, 8, seed=3)
        found = clattn.gradients(query, key, value, dout, cu_query=[0, 4, 9], causal="top-left")
        for part in slice(0, 4), slice(4, 9):
            right = clattn.gradients(*[x[:, :, part] for x in (query, key, value, dout)], causal="top-left")
            for name in right:
                self.assertTrue(np.array_equal(found[name][:, :, part], right[name]))

    def test_refused(self):
        call = lambda **options: clattn.gradients(*self.three, self.dout, **options)
        self.refused("of 'out': must be of query", lambda: call(of=["out"]))
        self.refused("of 'bias': there is none", lambda: call(of=["bias"]))
        self.refused("page_table: keys in pages", lambda: call(page_table=[[0]]))
        self.refused("is_causal: .*top-left", lambda: call(is_causal=True))
        self.refused("dlse: is float64", lambda: call(dlse=self.dlse.astype(np.float64)), clattn.InvalidShape)
        self.refused("dout: is float32", lambda: clattn.gradients(*self.three, self.dout.astype(np.float32)),
                     clattn.InvalidShape)


class Merging(Case):
    def test_parts(self):
        query, key, value = normal(2, 4, 5, 16), normal(2, 2, 30, 16, seed=1), normal(2, 2, 30, 8, seed=2)
        right = clattn.attention(query, key, value, return_lse=True)
        for cuts in ([0, 30], [0, 7, 30], [0, 10, 20, 30]):
            parts = [clattn.attention(query, key[:, :, a:b], value[:, :, a:b], return_lse=True)
                     for a, b in zip(cuts, cuts[1:])]
            for found, other in zip(clattn.merge(parts), right):
                self.assertEqual(found.dtype, other.dtype)
                self.close(found, other)
        empty = np.full((2, 4, 5, 8), np.nan, np.float32), np.full((2, 4, 5), -np.inf, np.float32)
        for found, other in zip(clattn.merge([empty, right, empty]), right):
            self.close(found, other)
        out, lse = clattn.merge([empty, empty])
        self.assertTrue((out == 0).all() and np.isneginf(lse).all())
        self.refused("at least one", lambda: clattn.merge([]))
        self.refused("part 1: ", lambda: clattn.merge([right, (right[0], right[1][:1])]), clattn.InvalidShape)


class Words(Case):
    def test_what_others_call_options(self):
        three = normal(1, 2, 3, 8), normal(1, 2, 3, 8), normal(1, 2, 3, 8)
        for options, text in (({"is_causal": True}, 'is_causal: is not an option here; give causal="top-left"'),
                              ({"attn_mask": None}, "attn_mask: is not an option here; give mask"),
                              ({"dropout_p": 0.0}, "give dropout"), ({"block_table": [[0]]}, "give page_table")):
            self.refused(text, lambda: clattn.attention(*three, **options))
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'foo'"):
            clattn.attention(*three, foo=1)


class Caches(Case):
    """By the definition, in float64."""

    def setUp(self):
        self.cosine, self.sine = clattn.rotary_table(16, 40, base=5000.0)

    def turned(self, x, positions):
        """Pairs of halves."""
        a, b = x[..., :8].astype(np.float64), x[..., 8:]
        angles = np.asarray(positions)[..., None] * 5000.0**(-np.arange(8) / 8)
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)

    def test_rotary(self):
        x = normal(2, 3, 5, 16)
        self.close(self.cosine[7], np.cos(7 * 5000.0**(-np.arange(8) / 8)), 1e-7)
        right = self.turned(x, np.array([4, 9])[:, None, None] + np.arange(5))
        out = clattn.rotary(x, self.cosine, self.sine, pairs="halves", starts=[4, 9])
        self.close(out, right)
        positions = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
        self.close(clattn.rotary(x, self.cosine, self.sine, pairs="halves", positions=positions),
                   self.turned(x, positions[:, None]))
        self.close(clattn.rotary(out, self.cosine, self.sine, pairs="halves", starts=[4, 9], inverse=True), x)
        self.refused("pairs None: must be", lambda: clattn.rotary(x, self.cosine, self.sine, pairs=None, starts=[0, 0]))
        self.refused("give one", lambda: clattn.rotary(x, self.cosine, self.sine, pairs="halves"))
        self.refused("position|starts",
                     lambda: clattn.rotary(x, self.cosine, self.sine, pairs="halves", starts=[36, 0]), clattn.Error)

    def test_append(self):
        query, key, value = normal(2, 4, 3, 16), normal(2, 2, 3, 16, seed=1), normal(2, 2, 3, 16, seed=2)
        caches = [np.zeros((2, 2, 20, 16), np.float32) for _ in range(2)]
        turned = clattn.append(key, value, *caches, starts=[5, 0], query=query, pairs="halves", cosine=self.cosine,
                               sine=self.sine)
        for b, start in enumerate((5, 0)):
            rows = slice(start, start + 3)
            self.close(turned[b], self.turned(query[b], start + np.arange(3)))
            self.close(caches[0][b, :, rows], self.turned(key[b], start + np.arange(3)))
            self.assertTrue(np.array_equal(caches[1][b, :, rows], value[b]))
        self.assertEqual(np.count_nonzero(caches[1].any(-1)), 12)

    @staticmethod
    def normed(x, weight=1.0):
        x = x.astype(np.float64)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight

    def test_norms(self):
        query, key, value = normal(2, 4, 3, 16), normal(2, 2, 3, 16, seed=1), 50 * normal(2, 2, 3, 16, seed=2)
        weight = normal(16, seed=3)
        out = clattn.rotary(query, self.cosine, self.sine, pairs="halves", starts=[4, 9], norm=weight,
                            norm_epsilon=1e-6)
        places = np.array([4, 9])[:, None, None] + np.arange(3)
        self.close(out, self.turned(self.normed(query, weight), places))
        caches = [np.zeros((2, 2, 20, 16), np.float32) for _ in range(2)]
        turned = clattn.append(key, value, *caches, starts=[0, 0], query=query, pairs="halves", cosine=self.cosine,
                               sine=self.sine, query_norm=True, key_norm=weight, value_norm=True, norm_epsilon=1e-6)
        self.close(turned, self.turned(self.normed(query), np.arange(3)))
        self.close(caches[0][:, :, :3], self.turned(self.normed(key, weight), np.arange(3)))
        self.close(caches[1][:, :, :3], self.normed(value))
        alone = clattn.append(key, value, *caches, starts=[0, 0], query=query, query_norm=weight, norm_epsilon=1e-6)
        self.close(alone, self.normed(query, weight))
        for text, norms in (("norm_epsilon: is missing", {"key_norm": True}),
                            ("nothing is normed", {"norm_epsilon": 1e-6}),
                            ("key_norm: is float32 of shape", {"key_norm": weight[:8], "norm_epsilon": 1e-6}),
                            ("norm_epsilon 0: must be", {"key_norm": True, "norm_epsilon": 0.0})):
            self.refused(text, lambda norms=norms: clattn.append(key, value, *caches, starts=[0, 0], **norms),
                         clattn.Error)

    def test_append_to_pages_of_codes(self):
        key, value = normal(2, 2, 5, 32, seed=1), normal(2, 2, 5, 32, seed=2)
        table = np.array([[3, 0], [1, 2]], np.int32)
        pools = [np.zeros((4, 2, 4, 34), np.uint8) for _ in range(2)]
        self.assertIsNone(clattn.append(key[:, :, :4], value[:, :, :4], *pools, starts=[0, 0], page_table=table,
                                        key_type="q8_0", value_type="q8_0"))
        clattn.append(key[:, :, 4:], value[:, :, 4:], *pools, starts=[4, 4], page_table=table, key_type="q8_0",
                      value_type="q8_0")
        for pool, rows in zip(pools, (key, value)):
            codes = clattn.quantise(rows, "q8_0")
            for b in range(2):
                for j in range(5):
                    self.assertTrue(np.array_equal(pool[table[b, j // 4], :, j % 4], codes[b, :, j]))
        query = normal(2, 4, 1, 32)
        self.close(clattn.attention(query, *pools, key_type="q8_0", value_type="q8_0", page_table=table,
                                    key_lengths=[5, 5]),
                   clattn.attention(query, key, value), 0.02)
        frozen = pools[0].copy()
        frozen.flags.writeable = False
        self.refused("key_cache: is read-only", lambda: clattn.append(key, value, frozen, pools[1], starts=[0, 0],
                                                                      page_table=table, key_type="q8_0",
                                                                      value_type="q8_0"))


if __name__ == "__main__":
    unittest.main()
