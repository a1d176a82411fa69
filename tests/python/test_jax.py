"""clattn.jax: results and gradients of the operator of XLA, in jit and vmap, against the formula in JAX's own
operators."""
import inspect
import unittest
from functools import partial

try:
    import jax
except ModuleNotFoundError as missing:
    @unittest.skip(str(missing))
    class Operator(unittest.TestCase):
        def test_all(self):
            """Counts as skipped."""

    unittest.main()

import jax.numpy as jnp
import numpy as np

import clattn
from clattn import jax as ours

jax.config.update("jax_enable_x64", True)


def normal(*shape, seed=0, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape), dtype)


def formula(query, key, value, mask=None, bias=None, softcap=None, sinks=None, slopes=None, causal=None, scale=None):
    """In float64; a row without a key is 0."""
    query, key, value = (x.astype(jnp.float64) for x in (query, key, value))
    key, value = (x.repeat(query.shape[1] // key.shape[1], 1) for x in (key, value))
    scores = query @ key.swapaxes(2, 3) * (query.shape[3]**-0.5 if scale is None else scale)
    scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
    rows, keys = scores.shape[2:]
    distance = jnp.arange(rows)[:, None] + keys - rows - jnp.arange(keys)
    scores = scores if bias is None else scores + bias
    scores = scores if slopes is None else scores - slopes[:, None, None] * abs(distance)
    seen = jnp.ones((rows, keys), bool) if mask is None else mask
    seen = seen & (distance >= 0) if causal else seen
    scores = jnp.where(seen, scores, -1e300)
    if sinks is not None:
        scores = jnp.concatenate([scores, jnp.broadcast_to(sinks[:, None, None], (*scores.shape[:3], 1))], 3)
    return jnp.where(seen, jax.nn.softmax(scores)[..., :keys], 0) @ value


class Operator(unittest.TestCase):
    def setUp(self):
        self.three = normal(2, 4, 9, 16), normal(2, 2, 13, 16, seed=1), normal(2, 2, 13, 12, seed=2)
        self.optional = {"mask": normal(2, 1, 9, 13, seed=3) > -1, "bias": normal(4, 9, 13, seed=4),
                         "sinks": normal(4, seed=5),
                         "slopes": abs(normal(4, seed=6))}

    def close(self, found, right, tolerance=3e-6):
        self.assertEqual(found.shape, right.shape)
        self.assertLessEqual(float(abs(found.astype(jnp.float64) - right).max()), tolerance)

    def test_results(self):
        options = {"causal": "bottom-right", "softcap": 2.0, "scale": 0.3}
        for call in (ours.attention, jax.jit(ours.attention, static_argnames=tuple(options))):
            out = call(*self.three, **self.optional, **options)
            self.close(out, formula(*self.three, **self.optional, **options))
            self.close(call(*self.three), formula(*self.three))
        out, lse = ours.attention(*self.three, return_lse=True)
        self.assertEqual((out.dtype, lse.dtype, lse.shape), (jnp.float32, jnp.float32, (2, 4, 9)))

    def test_types(self):
        for dtype, tolerance in ((jnp.float16, 2e-3), (jnp.bfloat16, 2e-2)):
            three = [x.astype(dtype) for x in self.three]
            out = ours.attention(*three)
            self.assertEqual(out.dtype, dtype)
            self.close(out, formula(*three), tolerance)

    def test_lengths_and_windows(self):
        seen = jnp.arange(13) < jnp.array([13, 5])[:, None, None, None]
        self.close(jax.jit(lambda *x: ours.attention(*x[:3], key_lengths=x[3]))(*self.three, jnp.array([13, 5])),
                   formula(*self.three, mask=seen))
        near = abs(jnp.arange(9)[:, None] - jnp.arange(13)) <= 2
        self.close(ours.attention(*self.three, window=(2, 2), alignment="top-left"), formula(*self.three, mask=near))

    def test_gradients(self):
        given = {name: x for name, x in self.optional.items() if name != "mask"}

        def loss(function, three, given):
            out = function(*three, mask=self.optional["mask"], causal="bottom-right", softcap=2.0, **given)
            return (out * jnp.cos(jnp.arange(out.size)).reshape(out.shape)).sum()

        right = jax.grad(loss, (1, 2))(formula, self.three, given)
        for found in (jax.grad(loss, (1, 2))(ours.attention, self.three, given),
                      jax.jit(jax.grad(lambda *x: loss(ours.attention, *x), (0, 1)))(self.three, given)):
            for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True):
                self.close(one, other, 2e-5)

    def test_vmap(self):
        three = [jnp.stack([x, x + 1]) for x in self.three]
        self.close(jax.vmap(ours.attention)(*three), jax.vmap(formula)(*three))

    def test_vmap_of_an_unbatched_function(self):
        right = ours.attention(*self.three, causal="top-left")
        unbatched = lambda *three: ours.attention(*three, causal="top-left")
        self.assertEqual(unbatched(*[x[0] for x in self.three]).shape, right.shape[1:])
        self.close(jax.vmap(unbatched)(*self.three), right)
        self.close(jax.jit(jax.vmap(unbatched))(*self.three), right)
        heads = [x[0, :1] for x in self.three]
        self.close(jax.vmap(unbatched)(*heads), unbatched(*heads))  # of one head each
        grads = jax.grad(lambda x: jax.vmap(unbatched)(x, *self.three[1:]).sum())(self.three[0])
        self.close(grads,
                   jax.grad(lambda x: ours.attention(x, *self.three[1:], causal="top-left").sum())(self.three[0]))
        with self.assertRaisesRegex(clattn.InvalidArgument, "is_causal: .*top-left"):
            ours.attention(*self.three, is_causal=True)

    def test_nothing_is_copied(self):
        before = clattn._context.default_context().bytes_copied
        big = [normal(1, 8, 64, 64, seed=i) for i in range(3)]
        jax.jit(ours.attention)(*big).block_until_ready()
        if "used where it lies" in clattn.explain((1, 8, 64, 64)):
            self.assertEqual(clattn._context.default_context().bytes_copied, before)

    def test_lse_has_gradients(self):
        def loss(call, *three):
            out, lse = call(*three)
            return (out * normal(2, 4, 9, 12, seed=7)).sum() + (lse * normal(2, 4, 9, seed=8)).sum()

        def right(query, key, value):
            scores = query.astype(jnp.float64) @ key.repeat(2, 1).swapaxes(2, 3).astype(jnp.float64) / 4
            return jax.nn.softmax(scores) @ value.repeat(2, 1), jax.nn.logsumexp(scores, -1)

        found = jax.grad(lambda *three: loss(lambda *x: ours.attention(*x, return_lse=True), *three),
                         (0, 1, 2))(*self.three)
        for one, other in zip(found, jax.grad(lambda *three: loss(right, *three), (0, 1, 2))(*self.three)):
            self.close(one, other, 1e-5)

        def merged(query, key, value):
            return clattn.merge([ours.attention(query, key[:, :, part], value[:, :, part], return_lse=True)
                                 for part in (slice(0, 4), slice(4, 13))])

        for one, other in zip(merged(*self.three), ours.attention(*self.three, return_lse=True)):
            self.close(one, other)
        parts = jax.jit(jax.grad(lambda *three: loss(merged, *three), (0, 1, 2)))(*self.three)
        for one, other in zip(parts, found):
            self.close(one, other, 1e-5)

    def test_packed(self):
        """As clattn.attention and clattn.gradients have them; rows of no sequence are 0."""
        query, key, value = normal(1, 4, 10, 16), normal(1, 2, 12, 16, seed=1), normal(1, 2, 12, 12, seed=2)
        cu_query, cu_key = jnp.array([0, 3, 9]), jnp.array([0, 4, 12])

        def call(*three, **more):
            return ours.attention(*three, causal="bottom-right", return_lse=True, **more)

        out, lse = jax.jit(call)(query, key, value, cu_query=cu_query, cu_key=cu_key)
        self.assertTrue((out[:, :, 9:] == 0).all() and jnp.isneginf(lse[:, :, 9:]).all())
        dout = normal(*out.shape, seed=3).at[:, :, 9:].set(0)
        found = jax.grad(lambda *three: (call(*three, cu_query=cu_query, cu_key=cu_key)[0] * dout).sum(),
                         (0, 1, 2))(query, key, value)
        for rows, keys in ((slice(0, 3), slice(0, 4)), (slice(3, 9), slice(4, 12))):
            three = query[:, :, rows], key[:, :, keys], value[:, :, keys]
            self.close(out[:, :, rows], call(*three)[0], 0)
            right = jax.grad(lambda *three: (call(*three)[0] * dout[:, :, rows]).sum(), (0, 1, 2))(*three)
            for one, part, other in zip(found, (rows, keys, keys), right):
                self.close(one[:, :, part], other, 0)
        low = jnp.arange(10) // 2
        ranged = ours.attention(query, key, value, row_low=low, row_high=low + 3)
        keys = jnp.arange(12)
        self.close(ranged, ours.attention(query, key, value, mask=(keys >= low[:, None]) & (keys < low[:, None] + 3)))
        self.close(ours.attention(query, key, value, causal="bottom-right", offsets=[2]), call(query, key, value)[0], 0)

    def test_pages_and_codes(self):
        query, key, value = normal(2, 4, 1, 32), normal(2, 2, 8, 32, seed=1), normal(2, 2, 8, 32, seed=2)
        pools = [x.reshape(2, 2, 2, 4, 32).transpose(0, 2, 1, 3, 4).reshape(4, 2, 4, 32) for x in (key, value)]
        paged = {"page_table": jnp.array([[0, 1], [2, 3]]), "key_lengths": jnp.array([7, 4])}
        right = ours.attention(query, key, value, key_lengths=paged["key_lengths"])
        self.close(jax.jit(ours.attention)(query, *pools, **paged), right)
        codes = [jnp.asarray(clattn.quantise(np.asarray(x), "q8_0")) for x in pools]
        self.close(ours.attention(query, *codes, key_type="q8_0", value_type="q8_0", **paged), right, 0.02)
        for kind, more in (("u8", {"columns": 16}), ("nvfp4", {"tensor_scale": 0.5})):
            made = [clattn.quantise_rows(np.asarray(x), kind, **more) for x in (key, value)]
            right = ours.attention(query, *(jnp.asarray(clattn.dequantise_rows(codes, kind, by)) for codes, by in made))
            codes = [jnp.asarray(codes) for codes, _ in made]

            def of_codes(query, by):
                return ours.attention(query, *codes, key_type=kind, value_type=kind, key_scales=made[0][1]._replace(
                    scales=by), value_scales=made[1][1])

            self.close(jax.jit(of_codes)(query, made[0][1].scales), right)
            with self.assertRaisesRegex(clattn.InvalidArgument, "key_scales: keys in pages"):
                jax.grad(lambda query: of_codes(query, made[0][1].scales).sum())(query)
        with self.assertRaisesRegex(clattn.InvalidArgument, "page_table: keys in pages"):
            jax.grad(lambda q: ours.attention(q, *pools, **paged).sum())(query)

    def test_errors(self):
        query, key, value = self.three
        with self.assertRaisesRegex(Exception, "query_heads 4"):
            ours.attention(query, normal(2, 3, 13, 16), normal(2, 3, 13, 12)).block_until_ready()
        with self.assertRaisesRegex(Exception, "head_dim: query has 16"):
            ours.attention(query, key[..., :8], value).block_until_ready()
        with self.assertRaisesRegex(clattn.InvalidShape, "key: has shape"):
            ours.attention(query[0], key, value)
        for lengths in ([5], 5, [[5, 6]]):
            with self.assertRaisesRegex(clattn.InvalidShape, "key_lengths: has shape"):
                ours.attention(*self.three, key_lengths=jnp.array(lengths))
        with self.assertRaisesRegex(Exception, "must be \"top-left\""):
            ours.attention(*self.three, causal="left").block_until_ready()
        with self.assertRaisesRegex(Exception, "allow_rounded_weights 1: needs type"):
            ours.attention(*self.three, allow_rounded_weights=True).block_until_ready()
        ours.attention(*self.three, allow_tf32=True).block_until_ready()
        self.close(ours.attention(*self.three), formula(*self.three))

    def test_nothing_is_cut_off(self):
        for wrong in (jnp.ones(2), np.array([5.5, 6.0]), [True, True], jnp.array([True, False])):
            with self.assertRaisesRegex(clattn.InvalidArgument, "^key_lengths: type"):
                ours.attention(*self.three, key_lengths=wrong)
        for wrong in (2**32 + 5, -2**31 - 1, 2**63 - 1):
            for make in (np.array, jnp.array):
                with self.assertRaisesRegex(Exception, "key_len"):
                    jax.block_until_ready(ours.attention(*self.three, key_lengths=make([5, wrong])))
        right = ours.attention(*self.three, key_lengths=jnp.array([5, 13], jnp.int32))
        for make, kind in ((jnp.array, "uint8"), (jnp.array, "int64"), (jnp.array, "uint32"), (np.array, "uint64")):
            self.close(ours.attention(*self.three, key_lengths=make([5, 13], kind)), right, 0)
        for name in ("slopes", "sinks"):
            with self.assertRaisesRegex(clattn.InvalidArgument, f"^{name}: type complex"):
                ours.attention(*self.three, **{name: jnp.ones(4, jnp.complex64)}, alignment="top-left")
        for name in ("scale", "softcap"):
            for wrong in (True, "0.5", 1j):
                with self.assertRaisesRegex(clattn.InvalidArgument, f"^{name} "):
                    ours.attention(*self.three, **{name: wrong})


class ScaleAndDropout(unittest.TestCase):
    """Numbers of a call that may be traced: a scale, which has a gradient, and the seed of dropout."""

    def setUp(self):
        self.three = normal(1, 2, 7, 16), normal(1, 2, 9, 16, seed=1), normal(1, 2, 9, 16, seed=2)
        self.dout = normal(1, 2, 7, 16, seed=3)

    def loss(self, call, scale, query, **more):
        return (call(query, *(x.astype(query.dtype) for x in self.three[1:]), scale=scale, **more) * self.dout).sum()

    def test_scale_has_a_gradient(self):
        for kind, shape in (("float32", ()), ("float64", (1,))):
            query, scale = self.three[0].astype(kind), jnp.full(shape, 0.3, kind)
            right = jax.grad(self.loss, (1, 2))(formula, scale.astype("float64"), query)
            for transform in (lambda x: x, jax.jit):
                found = transform(jax.grad(partial(self.loss, ours.attention), (0, 1)))(scale, query)
                for one, other, like in zip(found, right, (scale, query)):
                    self.assertEqual((one.shape, one.dtype), (like.shape, like.dtype))
                    self.assertLessEqual(float(abs(one - other).max()), 2e-5 if kind == "float32" else 1e-12)
        self.assertEqual(ours.attention(*self.three, scale=0.3).tolist(),
                         ours.attention(*self.three, scale=jnp.float32(0.3)).tolist())

    def test_gradients_of_heads_in_float64(self):
        query = self.three[0].astype("float64")
        given = {"slopes": jnp.array([0.5, 0.25]), "sinks": jnp.array([0.1, -0.2])}
        found, right = (jax.grad(lambda given: self.loss(call, 0.3, query, causal="bottom-right", **given))(given)
                        for call in (ours.attention, formula))
        for name in given:
            self.assertEqual(found[name].dtype, jnp.float64)
            self.assertLessEqual(float(abs(found[name] - right[name]).max()), 1e-6)

    def test_dropout(self):
        seed, words = 2**40 + 3, jnp.array([3, 2**8], jnp.uint32)
        query, key, value = map(np.asarray, self.three)
        right = clattn.attention(query, key, value, dropout=0.4, seed=seed)
        call = jax.jit(lambda seed: ours.attention(*self.three, dropout=0.4, seed=seed))
        whole = seed, np.int64(seed), np.array(seed), jnp.int64(seed)
        for found in (*(ours.attention(*self.three, dropout=0.4, seed=x) for x in whole), call(words),
                      call(jnp.int64(seed))):
            self.assertEqual(found.tolist(), right.tolist())
        self.assertNotEqual(call(jnp.int32(1)).tolist(), call(jnp.int32(2)).tolist())
        self.assertEqual(call(jnp.int32(7)).tolist(), ours.attention(*self.three, dropout=0.4, seed=7).tolist())
        self.assertEqual(call(jax.random.key(5)).tolist(), call(jax.random.PRNGKey(5)).tolist())
        dquery = clattn.gradients(query, key, value, np.asarray(self.dout), dropout=0.4, seed=seed)["query"]
        found = jax.grad(lambda query: self.loss(ours.attention, None, query, dropout=0.4, seed=words))(self.three[0])
        self.assertEqual(found.tolist(), dquery.tolist())

    def test_what_is_refused(self):
        for says, words in (("seed: would be ignored", {"seed": 1}), ("needs a seed", {"dropout": 0.1}),
                            ("seed: float64", {"dropout": 0.1, "seed": jnp.ones(())}),
                            ("scale: has shape", {"scale": jnp.ones(2)}),
                            ("scale: type int32", {"scale": jnp.int32(1)})):
            with self.assertRaisesRegex(ValueError, says):
                ours.attention(*self.three, **words)


class Signature(unittest.TestCase):
    """clattn.jax.dot_product_attention beside jax.nn.dot_product_attention, on its arguments."""

    def setUp(self):
        self.three = normal(2, 9, 4, 16), normal(2, 9, 2, 16, seed=1), normal(2, 9, 2, 16, seed=2)
        self.dout = normal(2, 9, 4, 16, seed=7)

    def check(self, *three, **options):
        for name, x in inspect.signature(jax.nn.dot_product_attention).parameters.items():
            self.assertEqual(inspect.signature(ours.dot_product_attention).parameters[name].default, x.default)
        found, right = ((jax.jit(partial(function, **options))(*three), jax.grad(
            lambda *x: (function(*x, **options) * self.dout[:, :three[0].shape[-3]].reshape(three[0].shape)).sum(),
            (0, 1, 2))(*three)) for function in (ours.dot_product_attention, jax.nn.dot_product_attention))
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(right)):
            self.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
            self.assertLessEqual(float(abs(one - other).max()), 5e-6)

    def test_arguments(self):
        mask = (normal(2, 1, 9, 9, seed=3) > -1) | jnp.eye(9, dtype=bool)
        for options in ({}, {"is_causal": True}, {"scale": 0.5}, {"bias": normal(1, 4, 9, 9, seed=4)}, {"mask": mask},
                        {"local_window_size": 2}, {"local_window_size": (3, 1), "is_causal": True},
                        {"key_value_seq_lengths": jnp.array([4, 9], jnp.int32)},
                        {"query_seq_lengths": jnp.array([3, 9], jnp.int32),
                         "key_value_seq_lengths": jnp.array([4, 9], jnp.int32)}):
            with self.subTest(**options):
                self.check(*self.three, **options)

    def test_without_batch(self):
        self.dout = self.dout[:1]
        self.check(*(x[0] for x in self.three), is_causal=True)

    def test_residual(self):
        results = [function(*self.three, return_residual=True, is_causal=True)
                   for function in (ours.dot_product_attention, jax.nn.dot_product_attention)]
        for one, other in zip(*results):
            self.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
            self.assertLessEqual(float(abs(one - other).max()), 5e-6)

    def test_a_row_without_a_key(self):
        out, lse = ours.dot_product_attention(*self.three, mask=jnp.zeros((1, 1, 9, 9), bool), return_residual=True)
        self.assertTrue(bool((out == 0).all() and (lse == -jnp.inf).all()))

    def test_an_implementation_of_theirs(self):
        with self.assertRaisesRegex(clattn.InvalidArgument, "implementation 'xla'"):
            ours.dot_product_attention(*self.three, implementation="xla")


class Texts(unittest.TestCase):
    """A score and a mask as texts."""

    def setUp(self):
        self.three = normal(1, 2, 7, 16), normal(1, 2, 9, 16, seed=1), normal(1, 2, 9, 16, seed=2)
        self.table, self.dout = normal(2, 15, seed=3), normal(1, 2, 7, 16, seed=4)

    def loss(self, query, key, value, table):
        out = ours.attention(query, key, value, score="tanh(s) * SCALAR(cap) + LOAD(table, h * 15 + j - i + 6)",
                             mask="j <= i + 2", score_slope="(1 - tanh(s) * tanh(s)) * SCALAR(cap)",
                             inputs={"table": table, "cap": 1.5})
        return (out * self.dout).sum()

    def wanted(self, query, key, value, table):
        i, j = jnp.arange(7)[:, None], jnp.arange(9)
        scores = jnp.tanh(query @ key.swapaxes(2, 3) / 4) * 1.5 + table[:, j - i + 6]
        weights = jax.nn.softmax(jnp.where(j <= i + 2, scores, -jnp.inf))
        return (weights @ value * self.dout).sum()

    def test_both_ways_in_jit(self):
        for function in (jax.jit(jax.value_and_grad(self.loss, (0, 1, 2))), jax.value_and_grad(self.loss, (0, 1, 2))):
            (one, gradients), (other, theirs) = function(*self.three, self.table), jax.value_and_grad(
                self.wanted, (0, 1, 2))(*self.three, self.table)
            self.assertLessEqual(abs(float(one - other)), 2e-5)
            for ours_, theirs_ in zip(gradients, theirs):
                self.assertLessEqual(float(abs(ours_ - theirs_).max()), 1e-5)

    def test_what_is_refused(self):
        for says, words in (("inputs", {"inputs": {"x": 1.0}}),
                            ("at most 8", {"score": "s", "inputs": {f"x{i}": np.zeros(2, "f") for i in range(9)}})):
            with self.assertRaisesRegex(clattn.InvalidArgument, says):
                ours.attention(*self.three, **words)
        with self.assertRaisesRegex(Exception, "CLATTN_CODE_SCORE_SLOPE"):
            jax.grad(lambda q: ours.attention(q, *self.three[1:], score="s * 2").sum())(self.three[0])


if __name__ == "__main__":
    unittest.main()
