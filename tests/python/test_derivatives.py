"""Derivatives of clattn.torch.attention beyond those of its inputs at out: through lse, of the scale, with dropout, second
ones, and in forward mode; against PyTorch's own operators in float64."""
import unittest

import torch
import torch.autograd.forward_ad as forward_ad

import clattn
import clattn.torch
from clattn._torch_formula import formula

HAS_FLOAT64 = next(device["float64"] for device in clattn.devices() if device["chosen"])


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def inputs(dtype=torch.float64):
    return [normal(2, 4, 5, 8, dtype=dtype), normal(2, 2, 6, 8, seed=1, dtype=dtype), normal(2, 2, 6, 4, seed=2, dtype=dtype)]


WAYS = ({}, {"causal": "bottom-right", "softcap": 2.0}, {"causal": "top-left", "window": 2},
        {"mask": torch.arange(60).reshape(2, 1, 5, 6) % 5 > 0, "alignment": "bottom-right", "key_lengths": torch.tensor([6, 3]),
         "window": (3, 1)})
LEARNED = {"bias": normal(4, 1, 6), "slopes": torch.linspace(0.1, 0.5, 4).double(), "sinks": torch.linspace(-1, 1, 4).double(),
           "scale": torch.tensor(0.3).double()}


def expected(three, mask=None, key_lengths=None, window=None, causal=None, alignment=None, softcap=None, bias=None, slopes=None,
             sinks=None, scale=None):
    left, right = clattn._problem.window_of(window)
    return formula(*three, mask, bias, slopes, sinks, key_lengths, scale, (causal or "", alignment or "", left, right,
                                                                          softcap or 0.0))


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
        self.assertLessEqual((ours.double() - right.double()).abs().max().item(), tolerance * max(1, right.abs().max().item()))

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
            for one, other in zip(torch.autograd.grad(self.loss(ours), leaves), torch.autograd.grad(self.loss(theirs), others)):
                self.close(one, other)
        (ours, leaves), (theirs, others) = self.both({})
        for one, other in zip(torch.autograd.grad(ours[1].sum(), leaves[:2]), torch.autograd.grad(theirs[1].sum(), others[:2])):
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

    def test_words(self):
        for name, text in (("is_causal", "top-left"), ("attn_mask", "bias")):
            with self.assertRaisesRegex(clattn.InvalidArgument, text):
                clattn.torch.attention(*inputs(), **{name: True})
        with self.assertRaisesRegex(clattn.InvalidArgument, "scale: a tensor of"):
            clattn.torch.attention(*inputs(), scale=torch.ones(2))


if __name__ == "__main__":
    unittest.main()
