"""Derivatives of clattn.torch.attention beyond those of its inputs at out: through lse, of the scale, with dropout,
second ones, and in forward mode; against PyTorch's own operators in float64."""
import unittest

import torch
import torch.autograd.forward_ad as forward_ad

import clattn
import clattn.torch
from clattn._torch_formula import formula
from clattn._torch_operator import Given, Said

HAS_FLOAT64 = next(device["float64"] for device in clattn.devices() if device["chosen"])


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def inputs(dtype=torch.float64):
    return [normal(2, 4, 5, 8, dtype=dtype), normal(2, 2, 6, 8, seed=1, dtype=dtype),
            normal(2, 2, 6, 4, seed=2, dtype=dtype)]


WAYS = ({}, {"causal": "bottom-right", "softcap": 2.0}, {"causal": "top-left", "window": 2},
        {"mask": torch.arange(60).reshape(2, 1, 5, 6) % 5 > 0, "alignment": "bottom-right",
         "key_lengths": torch.tensor([6, 3]),
         "window": (3, 1)})
LEARNED = {"bias": normal(4, 1, 6), "slopes": torch.linspace(0.1, 0.5, 4).double(),
           "sinks": torch.linspace(-1, 1, 4).double(),
           "scale": torch.tensor(0.3).double()}


def expected(three, mask=None, key_lengths=None, window=None, causal=None, alignment=None, softcap=None, bias=None,
             slopes=None, sinks=None, scale=None, always_visible_keys=0, **more):
    left, right = clattn._problem.window_of(window)
    given = Given(*three, mask, bias, slopes, sinks, key_lengths, scale, **more)
    return formula(given, Said(causal or "", alignment or "", left, right, softcap or 0.0,
                               always_visible_keys=always_visible_keys))


@unittest.skipUnless(HAS_FLOAT64, "the device has no float64")
class Derivatives(unittest.TestCase):
    def leaves(self, tensors):
        return [x.detach().clone().requires_grad_() for x in tensors]

    def loss(self, results):
        out, lse = results
        lse = lse.double().masked_fill(lse.isinf(), 0.0)  # of rows that see nothing
        return (out * normal(*out.shape, seed=7)).sum() + (lse * normal(*lse.shape, seed=8)).sum()

    def close(self, ours, right, tolerance=1e-5):
        self.assertEqual(ours.shape, right.shape)
        self.assertTrue(torch.equal(ours.isinf(), right.isinf()))
        ours, right = (x.masked_fill(x.isinf(), 0.0) for x in (ours, right))
        self.assertLessEqual((ours.double() - right.double()).abs().max().item(),
                             tolerance * max(1, right.abs().max().item()))

    def both(self, way, names=()):
        """(ours, theirs): results, and the leaves that they are of."""
        found = []
        for call in (lambda *three, **more: clattn.torch.attention(*three, return_lse=True, **more),
                     lambda *three, **more: expected(three, **more)):
            leaves = self.leaves([*inputs(), *[LEARNED[name] for name in names]])
            found.append((call(*leaves[:3], **way, **dict(zip(names, leaves[3:]))), leaves))
        return found

    def test_lse_and_scale(self):
        for way, names in [(way, ()) for way in WAYS] + [({"alignment": "top-left"}, tuple(LEARNED)), ({}, ("scale",))]:
            (ours, leaves), (theirs, others) = self.both(way, names)
            for one, other in zip(ours, theirs):
                self.close(one, other)
            for one, other in zip(torch.autograd.grad(self.loss(ours), leaves),
                                  torch.autograd.grad(self.loss(theirs), others)):
                self.close(one, other)
        (ours, leaves), (theirs, others) = self.both({})
        for one, other in zip(torch.autograd.grad(ours[1].sum(), leaves[:2]),
                              torch.autograd.grad(theirs[1].sum(), others[:2])):
            self.close(one, other)

    def test_second_ones(self):
        for way, names in ((WAYS[0], ()), (WAYS[1], ()), (WAYS[3], ()), ({"alignment": "top-left"}, tuple(LEARNED))):
            second = []
            for results, leaves in self.both(way, names):
                first = torch.autograd.grad(self.loss(results), leaves, create_graph=True)
                size = sum((x * normal(*x.shape, seed=3)).sum() for x in first)
                second.append(torch.autograd.grad(size, leaves))
            for one, other in zip(*second):
                self.close(one, other)

    def test_forward_mode(self):
        for way, names in [(way, ()) for way in WAYS] + [({"alignment": "top-left"}, tuple(LEARNED))]:
            tensors = [*inputs(), *[LEARNED[name] for name in names]]
            step = 1e-4
            tangents = [normal(*x.shape, seed=5) for x in tensors]
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(x, tangent) for x, tangent in zip(tensors, tangents)]
                out = clattn.torch.attention(*duals[:3], **way, **dict(zip(names, duals[3:])))
                found = forward_ad.unpack_dual(out)
            ends = [expected(moved[:3], **way, **dict(zip(names, moved[3:])))[0] for moved in (
                [x + sign * step * tangent for x, tangent in zip(tensors, tangents)] for sign in (1, -1))]
            self.close(found.tangent, (ends[0] - ends[1]) / (2 * step))
            self.close(found.primal, clattn.torch.attention(*tensors[:3], **way, **dict(zip(names, tensors[3:]))))

    def test_functions_of_functions(self):
        """torch.func's transforms, whose tensors have no memory of their own."""
        query, key, value = inputs()
        tangent = normal(*query.shape, seed=5)
        call = lambda x: clattn.torch.attention(x, key, value, causal="bottom-right")
        with forward_ad.dual_level():
            right = forward_ad.unpack_dual(call(forward_ad.make_dual(query, tangent))).tangent
        self.close(torch.func.jvp(call, (query,), (tangent,))[1], right)
        self.close(torch.func.jacfwd(call)(query).mul(tangent).sum((-4, -3, -2, -1)), right)
        with self.assertRaisesRegex(clattn.InvalidShape, "query: has shape"):
            torch.func.jvp(call, (query[0],), (tangent[0],))

    def test_dropout(self):
        leaves = self.leaves(inputs())
        call = lambda *three: clattn.torch.attention(*three, dropout=0.4, seed=11)
        right = clattn.attention(*[x.detach() for x in leaves], dropout=0.4, seed=11)
        self.assertTrue(torch.equal(call(*leaves).detach(), right))
        self.assertTrue(torch.equal(call(*[x.detach() for x in leaves]), right))
        self.assertTrue(torch.autograd.gradcheck(call, leaves, atol=1e-5, rtol=1e-3, nondet_tol=0))
        torch.manual_seed(3)
        drawn = [clattn.torch.attention(*inputs(), dropout=0.5) for _ in range(2)]
        torch.manual_seed(3)
        self.assertTrue(torch.equal(clattn.torch.attention(*inputs(), dropout=0.5), drawn[0]))
        self.assertFalse(torch.equal(*drawn))
        with self.assertRaisesRegex(clattn.Unsupported, "dropout: has no second"):
            first = torch.autograd.grad(call(*leaves).sum(), leaves, create_graph=True)
            torch.autograd.grad(first[0].sum(), leaves)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(inputs()[0], inputs()[0])
            with self.assertRaisesRegex(clattn.Unsupported, "dropout: has no derivatives in forward mode"):
                clattn.torch.attention(dual, *inputs()[1:], dropout=0.5)

    def test_sequences(self):
        """Packed, with a sequence without rows, one without keys, rows and keys of none; row ranges; offsets."""
        query, key, value = normal(1, 4, 11, 8), normal(1, 2, 12, 8, seed=1), normal(1, 2, 12, 4, seed=2)
        low = torch.arange(11)[None, None] % 3
        packed = {"cu_query": torch.tensor([0, 4, 4, 6, 10]), "cu_key": torch.tensor([0, 5, 7, 7, 11])}
        ways = (({**packed, "causal": "bottom-right"}, ()), ({**packed, "row_low": low, "row_high": low + 2}, ()),
                ({**packed, "mask": normal(4, 1, 4, 5) > -1, "alignment": "top-left"}, ("slopes", "sinks", "scale")),
                ({"row_low": low, "row_high": low + 4, "offsets": torch.tensor([-2]), "window": (2, 1),
                  "always_visible_keys": 1},
                 ("sinks",)))
        for way, names in ways:
            found = []
            for call in (lambda *three, **more: clattn.torch.attention(*three, return_lse=True, **more),
                         lambda *three, **more: expected(three, **more)):
                leaves = self.leaves([query, key, value, *[LEARNED[name] for name in names]])
                results = call(*leaves[:3], **way, **dict(zip(names, leaves[3:])))
                first = torch.autograd.grad(self.loss(results), leaves, create_graph=True)
                size = sum((x * normal(*x.shape, seed=3)).sum() for x in first)
                found.append([*results, *first, *torch.autograd.grad(size, leaves)])
            for one, other in zip(*found):
                self.close(one, other)
            with torch.no_grad():
                plain = clattn.torch.attention(query, key, value, **way, **{name: LEARNED[name] for name in names})
            self.assertTrue(torch.equal(plain, found[0][0]))

    def test_sinks_of_rows_without_keys(self):
        """Their lse is the sink, so that the sink's gradient has dlse."""
        mask = torch.ones(5, 6, dtype=torch.bool)
        mask[1] = False
        sinks = LEARNED["sinks"].clone().requires_grad_()
        out, lse = clattn.torch.attention(*inputs(), mask=mask, sinks=sinks, return_lse=True)
        self.assertTrue((out[:, :, 1] == 0).all() and
                        torch.equal(lse[:, :, 1].double(), sinks.float().double().expand(2, 4)))
        self.close(torch.autograd.grad(lse[:, :, 1].sum(), sinks)[0], torch.full((4,), 2.0))
        dout, dlse = torch.zeros(2, 4, 5, 4, dtype=torch.float64), torch.zeros(2, 4, 5)
        dlse[:, :, 1] = 3
        found = clattn.gradients(*inputs(), dout, dlse=dlse, mask=mask, sinks=sinks.detach(), of=["sinks", "query"])
        self.close(found["sinks"], torch.full((4,), 6.0))
        self.assertTrue((found["query"] == 0).all())

    def test_merged(self):
        """Parts of keys, of which one has the sinks; through PyTorch's operators."""
        found = []
        for cuts in ((0, 6), (0, 1, 6), (0, 2, 3, 6)):
            leaves = self.leaves([*inputs(), LEARNED["sinks"]])
            query, key, value, sinks = leaves
            parts = [clattn.torch.attention(query, key[:, :, a:b], value[:, :, a:b], window=(-1, 0),
                                            offsets=[1 - a] * 2, return_lse=True, sinks=sinks if b == 6 else None)
                     for a, b in zip(cuts, cuts[1:])]
            results = clattn.merge(parts)
            found.append([*results, *torch.autograd.grad(self.loss(results), leaves)])
        for other in found[1:]:
            for one, right in zip(other, found[0]):
                self.close(one, right, 1e-6)
        with self.assertRaisesRegex(clattn.InvalidArgument, "part 0: a Tensor and a ndarray"):
            clattn.merge([(torch.zeros(1, 1), torch.zeros(1).numpy())])

    def test_pages_and_codes(self):
        query = normal(2, 4, 1, 32).float()
        key, value = normal(2, 2, 8, 32, seed=3).float(), normal(2, 2, 8, 32, seed=4).float()
        table = torch.tensor([[3, 0], [1, 2]])
        pools = [torch.empty(4, 2, 4, 32) for _ in range(2)]
        for pool, dense in zip(pools, (key, value)):
            for b in range(2):
                for page in range(2):
                    pool[table[b, page]] = dense[b, :, 4 * page:4 * page + 4]
        paged = {"page_table": table, "key_lengths": [7, 4]}
        right = clattn.torch.attention(query, key, value, key_lengths=torch.tensor([7, 4]))
        self.close(clattn.torch.attention(query, *pools, **paged), right, 1e-6)
        codes = [torch.from_numpy(clattn.quantise(x, "q8_0")) for x in pools]
        out = clattn.torch.attention(query, *codes, key_type="q8_0", value_type="q8_0", **paged)
        self.close(out, right, 0.02)
        compiled = torch.compile(lambda *three: clattn.torch.attention(*three, key_type="q8_0", value_type="q8_0",
                                                                       **paged),
                                 fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(query, *codes), out))
        asks = query.clone().requires_grad_()
        with self.assertRaisesRegex(clattn.InvalidArgument, "page_table: keys in pages"):
            clattn.torch.attention(asks, *pools, **paged)
        with self.assertRaisesRegex(clattn.InvalidArgument, "key_type: "):
            clattn.torch.attention(asks, *[x[:2] for x in codes], key_type="q8_0", value_type="q8_0")
        with forward_ad.dual_level(), self.assertRaisesRegex(clattn.Unsupported,
                                                             "page_table: has no derivatives in forward"):
            clattn.torch.attention(forward_ad.make_dual(query, query), *pools, **paged)

    def test_rotary(self):
        cosine, sine = map(torch.from_numpy, clattn.rotary_table(8, 20))
        x = normal(2, 4, 5, 8).requires_grad_()
        for where in ({"starts": [3, 7]}, {"positions": torch.arange(10).reshape(2, 5)}):
            def call(x, where=where):
                return clattn.torch.rotary(x, cosine, sine, pairs="halves", **where)

            self.assertTrue(torch.equal(call(x).detach(),
                                        clattn.rotary(x.detach(), cosine, sine, pairs="halves", **where)))
            self.assertTrue(torch.autograd.gradcheck(call, x, atol=1e-6))
            self.assertTrue(torch.autograd.gradgradcheck(call, x, atol=1e-6))
        with self.assertRaisesRegex(clattn.InvalidArgument,
                                    "x: requires a gradient, which clattn.rotary .*clattn.torch.rotary"):
            clattn.rotary(x, cosine, sine, pairs="halves", starts=[0, 0])
        caches = [torch.zeros(2, 2, 6, 8) for _ in range(2)]
        with self.assertRaisesRegex(clattn.InvalidArgument, "key: requires a gradient, which clattn.append"):
            clattn.append(normal(2, 2, 3, 8).float().requires_grad_(), normal(2, 2, 3, 8).float(), *caches,
                          starts=[0, 2])
        with self.assertRaisesRegex(clattn.InvalidArgument, "key_cache: requires a gradient, which writing"):
            clattn.append(*[normal(2, 2, 3, 8).float()] * 2, caches[0].clone().requires_grad_(), caches[1],
                          starts=[0, 2])
        before = caches[0]._version
        clattn.append(*[normal(2, 2, 3, 8).float()] * 2, *caches, starts=[0, 2])
        self.assertTrue(torch.equal(caches[0][1, :, 2:5], normal(2, 2, 3, 8).float()[1]))
        self.assertGreater(caches[0]._version, before)

    def test_words(self):
        for name, text in (("is_causal", "top-left"), ("attn_mask", "bias")):
            with self.assertRaisesRegex(clattn.InvalidArgument, text):
                clattn.torch.attention(*inputs(), **{name: True})
        query, key, value = inputs()
        with self.assertRaisesRegex(clattn.InvalidArgument,
                                    "query: requires a gradient, which clattn.gradients has not; call this"):
            clattn.gradients(query.requires_grad_(), key, value, torch.ones(2, 4, 5, 4).double())
        with self.assertRaisesRegex(clattn.InvalidArgument, "scale: a tensor of"):
            clattn.torch.attention(*inputs(), scale=torch.ones(2))


if __name__ == "__main__":
    unittest.main()
