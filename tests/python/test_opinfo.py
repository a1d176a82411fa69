"""PyTorch's own samples of scaled_dot_product_attention and of its kernel for the CPU (the OpInfos of torch.testing), each
a test, in three types: with clattn enabled the results and gradients are as near to float64's as PyTorch's own are, or as
rounding allows; so are those of clattn.torch.attention. Samples with dropout give PyTorch's bits."""
import unittest

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    from torch.testing._internal.common_methods_invocations import op_db
except ModuleNotFoundError as missing:  # expecttest
    @unittest.skip(str(missing))
    class Samples(unittest.TestCase):
        def test_all(self):
            """Counts as skipped."""

    unittest.main()

import clattn.torch

NAMES = ("nn.functional.scaled_dot_product_attention", "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu")
ATTENTION, KERNEL = NAMES
TYPES = (torch.float32, torch.float16, torch.bfloat16)
REACHES_THE_KERNEL = {"forward": 1, "backward": 1}


def samples(name, dtype):
    """(positions, options) of each; the generator's seed is one, so that a test sees what its name says."""
    operator = next(one for one in op_db if one.name == name)
    torch.manual_seed(1)
    return [((sample.input, *sample.args), sample.kwargs) for sample in operator.sample_inputs("cpu", dtype,
                                                                                              requires_grad=True)]


def changed(given, change):
    return change(given) if isinstance(given, torch.Tensor) and given.is_floating_point() else given


def pattern(out):
    """The loss's derivative at the results."""
    return torch.cos(torch.arange(out.numel(), dtype=torch.float64)).reshape(out.shape).to(out.dtype)


def results(call, sample, dtype):
    """[out, gradients of the tensors], float64, of the sample in a type."""
    leaves = []

    def leaf(tensor):
        leaves.append(tensor.detach().to(dtype).requires_grad_(tensor.requires_grad))
        return leaves[-1]

    three, options = sample
    given = [changed(x, leaf) for x in three]
    named = {key: changed(x, leaf) for key, x in options.items()}
    torch.manual_seed(42)  # of dropout
    out = call(*given, **named)
    out = out[0] if isinstance(out, tuple) else out
    wanted = [x for x in leaves if x.requires_grad]
    return [x.double() for x in (out.detach(), *torch.autograd.grad(out, wanted, pattern(out)))]


def exact(query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None, enable_gqa=False):
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                                                scale=scale, enable_gqa=enable_gqa)


def stock(name):
    return torch.nn.functional.scaled_dot_product_attention if name == ATTENTION else \
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def operator(query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None, enable_gqa=False):
    """The same by clattn's own operator, which wants all axes."""
    batch = query.shape[:-3] or key.shape[:-3] or (1,)
    four = [x if x.dim() == 4 else x.unsqueeze(-3) if x.dim() == 3 and query.dim() == key.dim() == 3 else
            x.expand(*batch, *x.shape) for x in (query, key, value)]
    out = clattn.torch.attention(*four, bias=attn_mask, causal="top-left" if is_causal else None, scale=scale)
    return out if query.dim() == 4 or key.dim() == 4 else out.squeeze(-3)


class Samples(unittest.TestCase):
    """One test for each, made below."""

    def setUp(self):
        clattn.torch.disable()
        clattn.torch.report(clear=True)

    tearDown = setUp

    def limits(self, sample, right, own, dtype):
        """Of each result: twice PyTorch's own error; what an error of four roundings in the scores makes of it, since the
        samples' scores are near a hundred; four roundings of the largest number that it is a sum of, which in gradients
        of queries, keys and biases cancel where a row attends to one key. In gradients weights are exp(score - lse), of
        an lse that was rounded to float32: as many roundings as the largest score is, and as many in the score."""
        (query, key, value), options = ([x.detach().double() for x in sample[0]], sample[1])
        rounding = 4 * torch.finfo(dtype).eps
        moved = results(exact, (((query * (1 + rounding)).requires_grad_(), *(x.requires_grad_() for x in (key, value))),
                                options), torch.float64)
        steps = (pattern(right[0]) @ value.mT).abs().max() * torch.maximum(query.abs().max(), key.abs().max())
        steps *= query.shape[-1]**-0.5
        of_lse = 2 * torch.finfo(torch.float32).eps * (query @ key.mT).abs().max() * query.shape[-1]**-0.5
        sums, parts = [0, steps, steps, 0, steps], [0, of_lse, of_lse, of_lse, of_lse]
        return [2 * (theirs - one).abs().max() + (other - one).abs().max() + rounding * max(one.abs().max(), terms) +
                part * one.abs().max() for one, other, theirs, terms, part in zip(right, moved, own, sums, parts)]

    def near(self, found, right, limits):
        for ours, exactly, limit in zip(found, right, limits, strict=True):
            self.assertEqual(ours.shape, exactly.shape)
            self.assertLessEqual((ours - exactly).abs().max().item(), limit.item())

    def check(self, name, sample, dtype):
        own = results(stock(name), sample, dtype)
        clattn.torch.enable()
        ours = results(stock(name), sample, dtype)
        report = clattn.torch.report(clear=True)
        clattn.torch.disable()
        if sample[1].get("dropout_p"):
            self.assertEqual(report, {"served": {}, "declined": {}})  # PyTorch's kernel has no dropout: not asked
            self.assertTrue(all(torch.equal(one, other) for one, other in zip(ours, own, strict=True)))
            return
        self.assertEqual(report["declined"], {})
        if name == KERNEL or sample[0][0].dim() == 4 and "attn_mask" not in sample[1]:
            self.assertEqual(report["served"], REACHES_THE_KERNEL)
        right = results(exact, sample, torch.float64)
        limits = self.limits(sample, right, own, dtype)
        self.near(ours, right, limits)
        self.near(results(operator, sample, dtype), right, limits)


for _name in NAMES:
    for _type in TYPES:
        for _number, _sample in enumerate(samples(_name, _type)):
            _title = f"test_{'kernel' if _name == KERNEL else 'attention'}_{str(_type)[6:]}_{_number:02}"
            setattr(Samples, _title, lambda self, n=_name, s=_sample, t=_type: self.check(n, s, t))


if __name__ == "__main__":
    unittest.main()
