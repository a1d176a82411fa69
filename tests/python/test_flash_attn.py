"""flash_attn's functions by clattn.flash_attn, beside their formula in float64: the parameters of flash_attn's own
tests, thinned out, by their rule: no more than twice the error of the formula in the tensors' type (gradients three
times). All of their numbers of columns where CLATTN_TEST_LONG is set: each is a program of its own."""
import inspect
import itertools
import math
import os
import unittest

import torch

import clattn.flash_attn as fa

TYPES = torch.float16, torch.bfloat16
HEADS = {"mha": (6, 6), "mqa": (6, 1), "gqa": (6, 2)}
SHAPES = (113, 203), (128, 217), (108, 256), (256, 203), (64, 64), (1, 147), (203, 112)
COLUMNS = (32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256) if os.environ.get("CLATTN_TEST_LONG") else (32, 59, 128)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def formula(q, k, v, causal=False, window=(-1, -1), softcap=0.0, slopes=None, lengths=None, padding=None, kind=None):
    """(out, lse) of tensors as flash_attn has them, computed in a type (float64 where not said)."""
    kind = kind or torch.float64
    q, k, v = (x.to(kind) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[3])
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    lengths = torch.as_tensor([k.shape[1]] * q.shape[0] if lengths is None else lengths)[:, None, None]
    keys = torch.arange(k.shape[1])
    ahead = torch.arange(q.shape[1])[:, None] + lengths - q.shape[1] - keys  # of the key, by so many places
    if slopes is not None:
        scores = scores - slopes.to(kind).reshape(-1, q.shape[2])[:, :, None, None] * ahead.abs()[:, None]
    seen = (keys < lengths) & (ahead >= 0 if causal else True)
    seen = seen & (ahead <= window[0] if window[0] >= 0 else True) & (-ahead <= window[1] if window[1] >= 0 else True)
    if padding is not None:
        seen = seen & (keys >= torch.as_tensor(padding)[:, None, None])
    scores = scores.masked_fill(~seen[:, None], -math.inf)
    weights = torch.softmax(scores, -1).masked_fill(~seen[:, None], 0.0)
    return torch.einsum("bhij,bjhd->bihd", weights, v), scores.logsumexp(-1)


def with_gradients(compute, tensors, dout):
    leaves = [x.detach().requires_grad_() for x in tensors]
    out = compute(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, dout.to(out.dtype))]


def error(found, right):
    return (found.double() - right).abs().max().item()


class FlashAttention(unittest.TestCase):
    def check(self, found, right, tolerance=2e-6):
        self.assertEqual(found.shape, right.shape)
        self.assertTrue(torch.equal(found.isinf(), right.isinf()))
        self.assertLessEqual(error(found.nan_to_num(neginf=0), right.nan_to_num(neginf=0)), tolerance)

    def by_the_rule(self, ours, options, tensors, dtype):
        """ours: a function of tensors; options: those of formula()."""
        dout = normal(*tensors[0].shape, seed=9)
        found = with_gradients(ours, tensors, dout)
        exact = with_gradients(lambda *x: formula(*x, **options)[0], [x.double() for x in tensors], dout.to(dtype))
        plain = with_gradients(lambda *x: formula(*x, **options, kind=dtype)[0], tensors, dout)
        for at, (one, right, other) in enumerate(zip(found, exact, plain)):
            self.assertEqual(one.dtype, dtype)
            self.assertLessEqual(error(one, right), (3 if at else 2) * error(other, right) + 1e-5, (at, options))


class Dense(FlashAttention):
    def test_their_grid(self):
        """Each value of each parameter with others of the others."""
        kinds = itertools.cycle(itertools.product(HEADS, (False, True), (False, True), (False, True), (0.0, 30.0)))
        for at, (columns, dtype) in enumerate(itertools.product(COLUMNS, TYPES)):
            rows, keys = SHAPES[at % len(SHAPES)]
            for _ in range(2):
                heads, causal, is_local, has_slopes, softcap = next(kinds)
            with self.subTest(columns=columns, dtype=dtype, heads=heads, causal=causal, local=is_local,
                              slopes=has_slopes):
                query_heads, key_heads = HEADS[heads]
                tensors = [normal(2, n, h, columns, seed=i, dtype=dtype) for i, (n, h) in enumerate(
                    ((rows, query_heads), (keys, key_heads), (keys, key_heads)))]
                window = (keys // 3, rows // 4) if is_local else (-1, -1)
                slopes = normal(2, query_heads, seed=4).abs() * 0.3 if has_slopes else None
                self.by_the_rule(
                    lambda q, k, v: fa.flash_attn_func(q, k, v, causal=causal, window_size=window, softcap=softcap,
                                                       alibi_slopes=slopes),
                    {"causal": causal, "window": window, "slopes": slopes, "softcap": softcap}, tensors, dtype)

    def test_float32_and_lse(self):
        q, k, v = normal(2, 9, 4, 16), normal(2, 5, 2, 16, seed=1), normal(2, 5, 2, 24, seed=2)
        out, lse, empty = fa.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
        right = formula(q, k, v, causal=True)
        self.check(out, right[0])
        self.check(lse, right[1])
        self.assertTrue((lse[:, :, :4] == -math.inf).all() and (out[:, :4] == 0).all())
        self.assertEqual(empty.numel(), 0)
        self.assertTrue(out.is_contiguous())

    def test_scale(self):
        q, k, v = normal(1, 3, 2, 16), normal(1, 5, 2, 16, seed=1), normal(1, 5, 2, 16, seed=2)
        self.check(fa.flash_attn_func(q, k, v, softmax_scale=0.5), formula(q * 2, k, v)[0])

    def test_packed_along_an_axis(self):
        qkv, dout = normal(2, 7, 3, 4, 16), normal(2, 7, 4, 16, seed=1)
        apart = with_gradients(lambda x: fa.flash_attn_func(*x.unbind(2), causal=True), [qkv], dout)
        self.assertTrue(all(map(torch.equal, apart, with_gradients(
            lambda x: fa.flash_attn_qkvpacked_func(x, causal=True), [qkv], dout))))
        self.assertTrue(all(map(torch.equal, apart, with_gradients(
            lambda x: fa.flash_attn_kvpacked_func(x[:, :, 0], x[:, :, 1:], 0.0, None, True), [qkv], dout))))

    def test_dropout(self):
        q, k, v = torch.zeros(2, 64, 4, 16), torch.zeros(2, 128, 4, 16), torch.ones(2, 128, 4, 16)
        torch.manual_seed(1)
        once = fa.flash_attn_func(q, k, v, dropout_p=0.17)
        self.assertAlmostEqual(once.mean().item(), 1.0, delta=0.02)
        self.assertFalse(torch.equal(once, fa.flash_attn_func(q, k, v, dropout_p=0.17)))
        torch.manual_seed(1)
        self.assertTrue(torch.equal(once, fa.flash_attn_func(q, k, v, dropout_p=0.17)))

    def test_what_does_not_fit_is_named(self):
        q = normal(2, 3, 4, 16)
        for call, words in ((lambda: fa.flash_attn_func(q[0], q, q), "q: has shape"),
                            (lambda: fa.flash_attn_qkvpacked_func(q), "qkv: has shape"),
                            (lambda: fa.flash_attn_func(q, q[:, :, :3], q[:, :, :3]), "head")):
            with self.assertRaisesRegex(ValueError, words):
                call()

    def test_signatures(self):
        """By which callers find out what they may give."""
        names = ["dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic",
                 "return_attn_probs"]
        self.assertEqual(list(inspect.signature(fa.flash_attn_func).parameters), ["q", "k", "v", *names])
        self.assertEqual(list(inspect.signature(fa.flash_attn_varlen_func).parameters),
                         ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", *names,
                          "block_table"])


class Varlen(FlashAttention):
    QUERIES, KEYS = (0, 5, 5, 12, 30), (0, 9, 13, 13, 40)

    def of_each(self, compute):
        """Results of a function of slices of rows and keys, one behind the other."""
        return torch.cat([compute(slice(*q), slice(*k)) for q, k in zip(
            itertools.pairwise(self.QUERIES), itertools.pairwise(self.KEYS))])

    def seams(self):
        return [torch.tensor(x, dtype=torch.int32) for x in (self.QUERIES, self.KEYS)]

    def test_forward_and_backward(self):
        tensors = normal(30, 4, 16), normal(40, 2, 16, seed=1), normal(40, 2, 16, seed=2)
        dout = normal(30, 4, 16, seed=3)
        for options in ({}, {"causal": True}, {"window": (3, 1)}, {"causal": True, "slopes": normal(4, seed=5).abs()}):
            words = {"window": "window_size", "slopes": "alibi_slopes"}
            said = {words.get(name, name): x for name, x in options.items()}
            found = with_gradients(lambda *x: fa.flash_attn_varlen_func(*x, *self.seams(), 18, 27, **said), tensors,
                                   dout)
            right = with_gradients(lambda q, k, v: self.of_each(
                lambda i, j: formula(q[None, i], k[None, j], v[None, j], **options)[0][0]),
                [x.double() for x in tensors], dout)
            for one, other in zip(found, right):
                self.check(one, other, 1e-5)

    def test_lse(self):
        q, k = normal(30, 4, 16), normal(40, 2, 16, seed=1)
        _, lse, _ = fa.flash_attn_varlen_func(q, k, k, *self.seams(), 18, 27, causal=True, return_attn_probs=True)
        self.check(lse, self.of_each(lambda i, j: formula(q[None, i], k[None, j], k[None, j], causal=True)[1][0].T).T)

    def test_packed_along_an_axis(self):
        qkv, seams = normal(30, 3, 4, 16), self.seams()[0]
        apart = fa.flash_attn_varlen_func(*qkv.unbind(1), seams, seams, 18, 18, causal=True)
        self.assertTrue(torch.equal(apart, fa.flash_attn_varlen_qkvpacked_func(qkv, seams, 18, causal=True)))
        self.assertTrue(torch.equal(apart, fa.flash_attn_varlen_kvpacked_func(qkv[:, 0], qkv[:, 1:], seams, seams, 18,
                                                                              18, causal=True)))

    def test_pages(self):
        pool, q = normal(9, 8, 2, 16), normal(30, 4, 16, seed=1)
        table = torch.tensor([[3, 8, 0, 0], [5, 0, 0, 0], [0, 0, 0, 0], [1, 7, 2, 4]], dtype=torch.int32)
        with torch.no_grad():
            out = fa.flash_attn_varlen_func(q, pool, pool, *self.seams(), 18, 27, causal=True, block_table=table)
        keys = torch.cat([pool[row].flatten(0, 1)[:n] for row, n in zip(table.tolist(), (9, 4, 0, 27))])
        self.check(out, self.of_each(lambda i, j: formula(q[None, i], keys[None, j], keys[None, j], causal=True)[0][0]))

    def test_a_sequence_beyond_the_maximum(self):
        q = normal(30, 4, 16)
        with self.assertRaisesRegex(ValueError, "max_seqlen_q 17"):
            fa.flash_attn_varlen_func(q, q, q, self.seams()[0], self.seams()[0], 17, 18)


def turned(x, positions, columns, is_interleaved):
    """Rows [batch, rows, heads, columns] turned by positions [batch, rows], and the tables for 64 positions."""
    angles = torch.arange(64.0)[:, None] * 0.9 ** torch.arange(columns // 2)
    cosine, sine = torch.cos(angles), torch.sin(angles)
    c, s = (table[positions][:, :, None].double() for table in (cosine, sine))
    head, rest = x.double().split((columns, x.shape[3] - columns), 3)
    a, b = (head[..., ::2], head[..., 1::2]) if is_interleaved else head.chunk(2, 3)
    pair = a * c - b * s, b * c + a * s
    head = torch.stack(pair, 4).flatten(3) if is_interleaved else torch.cat(pair, 3)
    return torch.cat((head, rest), 3).float(), cosine, sine


class Cache(FlashAttention):
    LENGTHS = torch.tensor([10, 17], dtype=torch.int32)

    def caches(self):
        return normal(5, 32, 2, 16), normal(5, 32, 2, 16, seed=1)

    def check_call(self, entries, key, value, new, options, right, **said):
        """One call, and what it writes: `new` rows behind LENGTHS, as they are in `right`."""
        before = [x.clone() for x in (key, value)]
        q = said.pop("q")
        out, lse = fa.flash_attn_with_kvcache(q, key, value, *new, cache_seqlens=self.LENGTHS, return_softmax_lse=True,
                                              **said)
        for cache, rows, found in zip(before, right["new"], (key, value)):
            for b, entry in enumerate(entries):
                cache[entry, self.LENGTHS[b]:self.LENGTHS[b] + rows.shape[1]] = rows[b]
            self.check(found, cache.double())
        lengths = self.LENGTHS + right["new"][0].shape[1]
        expected = formula(right["q"], before[0][entries], before[1][entries], lengths=lengths, **options)
        self.check(out, expected[0], 5e-6)
        self.check(lse, expected[1], 5e-6)

    def test_grid(self):
        for rows, causal, window, has_entries, has_padding in itertools.product(
                (1, 3), (False, True), ((-1, -1), (6, 0)), (False, True), (False, True)):
            with self.subTest(rows=rows, causal=causal, window=window, entries=has_entries, padding=has_padding):
                key, value = self.caches()
                entries = [4, 1] if has_entries else [0, 1]
                said = {"cache_batch_idx": torch.tensor(entries)} if has_entries else {}
                if not has_entries:
                    key, value = key[:2], value[:2]
                padding = torch.tensor([2, 5]) if has_padding else None
                q, new = normal(2, rows, 4, 16, seed=2), [normal(2, rows, 2, 16, seed=i) for i in (3, 4)]
                self.check_call(entries, key, value, new, {"causal": causal, "window": window, "padding": padding},
                                {"q": q, "new": new}, q=q, causal=causal, window_size=window, cache_leftpad=padding,
                                **said)

    def test_rotary(self):
        both = False, True
        for columns, is_interleaved, causal, new_rows in itertools.product((16, 8), both, both, (3, 5)):
            with self.subTest(columns=columns, interleaved=is_interleaved, causal=causal, new_rows=new_rows):
                key, value = (x[:2] for x in self.caches())
                q, new = normal(2, 3, 4, 16, seed=2), [normal(2, new_rows, 2, 16, seed=i) for i in (3, 4)]
                places = self.LENGTHS[:, None] + torch.arange(new_rows)
                right = turned(new[0], places, columns, is_interleaved)[0], new[1]
                places = self.LENGTHS[:, None] + torch.arange(3) * causal
                asked, cosine, sine = turned(q, places, columns, is_interleaved)
                self.check_call([0, 1], key, value, new, {"causal": causal}, {"q": asked, "new": right}, q=q,
                                causal=causal, rotary_cos=cosine, rotary_sin=sine, rotary_interleaved=is_interleaved)

    def test_pages(self):
        pool = [normal(9, 8, 2, 16, seed=i) for i in (0, 1)]
        table = torch.tensor([[3, 8, 0, 0], [5, 1, 7, 2]], dtype=torch.int32)
        q, new = normal(2, 3, 4, 16, seed=2), [normal(2, 3, 2, 16, seed=i) for i in (3, 4)]
        flat = [x[table.long()].flatten(1, 2) for x in pool]
        for cache, rows in zip(flat, new):
            for b, length in enumerate(self.LENGTHS):
                cache[b, length:length + 3] = rows[b]
        out = fa.flash_attn_with_kvcache(q, *pool, *new, cache_seqlens=self.LENGTHS, block_table=table, causal=True)
        self.check(out, formula(q, *flat, causal=True, lengths=self.LENGTHS + 3)[0], 5e-6)
        again = fa.flash_attn_with_kvcache(q, *pool, cache_seqlens=self.LENGTHS + 3, block_table=table, causal=True)
        self.assertTrue(torch.equal(out, again))

    def test_lengths(self):
        q, (key, value) = normal(2, 1, 4, 16, seed=2), (x[:2] for x in self.caches())
        self.check(fa.flash_attn_with_kvcache(q, key, value), formula(q, key, value)[0])
        self.check(fa.flash_attn_with_kvcache(q, key, value, cache_seqlens=9), formula(q, key[:, :9], value[:, :9])[0])

    def test_what_does_not_fit_is_named(self):
        q, (key, value) = normal(2, 3, 4, 16, seed=2), (x[:2] for x in self.caches())
        table = torch.zeros(2, 1)
        new = normal(2, 3, 2, 16)
        for said, words in (({"k": new}, "k, v: must be given both"),
                            ({"rotary_cos": table}, "rotary_cos, rotary_sin: must"),
                            ({"k": new, "v": new}, "cache_seqlens: is missing"),
                            ({"rotary_cos": table, "rotary_sin": table}, "need k and v"),
                            ({"cache_seqlens": torch.zeros(3, dtype=torch.int32)}, "cache_seqlens: has shape"),
                            ({"cache_leftpad": torch.zeros(3)}, "cache_leftpad: has shape"),
                            ({"cache_leftpad": torch.zeros(2), "block_table": table}, "not be given with block_table")):
            with self.assertRaisesRegex(ValueError, words):
                fa.flash_attn_with_kvcache(q, key, value, **said)


if __name__ == "__main__":
    unittest.main()
