"""PyTorch's own samples of scaled_dot_product_attention and of its kernel for the CPU (the OpInfos of torch.testing),
each a test, in four types: results and gradients are within the bounds of docs/numbers.md of float64's, with clattn
enabled and by clattn.torch.attention; what PyTorch does not hand to its kernel, and float64, which clattn declines,
keep PyTorch's bits. Over all samples of a type ours are as near to float64's as PyTorch's own. And no input that shares
its memory until one is written is copied, also of multi_head_attention_forward (PyTorch's test_cow_input)."""
import math
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

import bounds
import clattn.torch
from calls import Calls

NAMES = ("nn.functional.scaled_dot_product_attention", "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu")
ATTENTION, KERNEL = NAMES
LAYER = "nn.functional.multi_head_attention_forward"
SHORT = {ATTENTION: "attention", KERNEL: "kernel", LAYER: "layer"}
TYPES = (torch.float32, torch.float16, torch.bfloat16)
DECLINED = torch.float64


def samples(name, dtype):
    """(positions, options) of each; the generator's seed is one, so that a test sees what its name says."""
    operator = next(one for one in op_db if one.name == name)
    torch.manual_seed(1)
    return [((sample.input, *sample.args), sample.kwargs) for sample in operator.sample_inputs("cpu", dtype,
                                                                                              requires_grad=True)]


def changed(given, change):
    return change(given) if isinstance(given, torch.Tensor) and given.is_floating_point() else given


def pattern(out):
    """The loss's derivative at the results, which all types have exactly."""
    found = torch.cos(torch.arange(out.numel(), dtype=torch.float64)).mul(64).round().div(64)
    return found.reshape(out.shape).to(out.dtype)


def results(call, sample, dtype, derivative=pattern):
    """[out, gradients of the tensors], float64, of the sample in a type; derivative(out): the loss's."""
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
    return [x.double() for x in (out.detach(), *torch.autograd.grad(out, wanted, derivative(out)))]


def exact(query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None, enable_gqa=False):
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal,
                                                                scale=scale, enable_gqa=enable_gqa)


def stock(name):
    return next(one for one in op_db if one.name == name).op


def four_axes(query, key, value):
    """The tensors as [batch, heads, rows, columns], by views."""
    batch = query.shape[:-3] or key.shape[:-3] or (1,)
    return [x if x.dim() == 4 else x.unsqueeze(-3) if x.dim() == 3 and query.dim() == key.dim() == 3 else
            x.expand(*batch, *x.shape) for x in (query, key, value)]


def operator(query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None, enable_gqa=False):
    """Attention by clattn's own operator, which wants all axes."""
    out = clattn.torch.attention(*four_axes(query, key, value), bias=attn_mask,
                                 causal="top-left" if is_causal else None, scale=scale)
    return out if query.dim() == 4 or key.dim() == 4 else out.squeeze(-3)


def bounded(sample, dtype):
    """[(exact, bound)] of what `results` gives, by bounds.py."""
    three, options = [x.detach().double() for x in sample[0]], sample[1]
    mask = options.get("attn_mask")
    query, key, value = four_axes(*three)
    bias = torch.zeros(*query.shape[:3], key.shape[2], dtype=torch.float64)
    if options.get("is_causal"):
        bias.masked_fill_(~torch.ones(bias.shape[2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None:
        bias += mask.detach()
    dout = pattern(torch.empty(*query.shape[:3], value.shape[3], dtype=torch.float64))
    inputs = three + ([mask] if mask is not None and mask.requires_grad else [])
    found = bounds.Attention(bounds.Problem(query, key, value, dout, bias, options.get("scale") or query.shape[3]**-0.5,
                                            dtype)).results(mask.shape if len(inputs) == 4 else None)
    out = found.pop("out")
    return [out] + [bounds.summed(pair, like.shape, dtype) for pair, like in zip(found.values(), inputs, strict=True)]


class Samples(unittest.TestCase):
    """One test for each, made below."""

    def setUp(self):
        clattn.torch.disable()
        clattn.torch.report(clear=True)

    tearDown = setUp

    def factors(self, found, right):
        """Every number's error in units of the bound, which is 0 for keys that no row sees."""
        errors = torch.cat([(ours - exactly.reshape(ours.shape)).abs().flatten() for ours, (exactly, _) in
                            zip(found, right, strict=True)])
        return torch.where(errors == 0, 0.0, errors / torch.cat([bound.flatten() for _, bound in right]))

    def enabled(self, name, sample, dtype):
        """Results, and how many calls of what were served; all that come are, but float64's."""
        clattn.torch.enable()
        ours = results(stock(name), sample, dtype)
        report = clattn.torch.report(clear=True)
        clattn.torch.disable()
        self.assertTrue(all(dtype == DECLINED and "float64" in reason for reason in report["declined"]), report)
        return ours, report["served"]

    def check_copy_on_write(self, name, sample, dtype):
        """As PyTorch's test_cow_input: inputs that share their memory until one is written are not copied, and have
        what they had."""
        with Calls() as calls:
            results(stock(name), sample, dtype)
        ways = [stock(name)] if calls.served or name == LAYER else []
        if name == KERNEL and dtype == DECLINED:
            ways = []  # PyTorch's own kernel copies masks, as its OpInfo says
        for call in ways if name == LAYER or sample[1].get("dropout_p") else [*ways, operator]:
            clones = []

            def clone(tensor, clones=clones):
                clones.append((tensor, torch._lazy_clone(tensor)))
                return clones[-1][1]

            def cloned(*three, call=call, clone=clone, **options):
                return call(*[changed(x, clone) for x in three], **{k: changed(x, clone) for k, x in options.items()})

            clattn.torch.enable()
            try:
                results(cloned, sample, dtype, lambda out, clone=clone: clone(pattern(out)))
            finally:
                clattn.torch.disable()
            for tensor, other in clones:
                self.assertTrue(torch._C._is_cow_tensor(other))
                self.assertTrue(torch.equal(tensor, other))

    def check(self, name, sample, dtype):
        with Calls() as calls:
            own = results(stock(name), sample, dtype)
        ours, served = self.enabled(name, sample, dtype)
        self.assertEqual(served, {} if dtype == DECLINED else calls.served)
        if not served:
            self.assertTrue(all(torch.equal(one, other) for one, other in zip(ours, own, strict=True)))
        if sample[1].get("dropout_p"):
            self.assertFalse(served)  # PyTorch's kernel has no dropout: not asked
            return
        right = bounded(sample, dtype)
        for exactly, (same, _) in zip(results(exact, sample, torch.float64), right, strict=True):
            self.assertLessEqual((exactly - same.reshape(exactly.shape)).abs().max().item(), 1e-11)
        if served:
            self.assertLessEqual(self.factors(ours, right).max().item(), 1)
        most = 2 if dtype == DECLINED else 1  # what is held to be right there is of float64 too, and errs as much
        self.assertLessEqual(self.factors(results(operator, sample, dtype), right).max().item(), most)

    def check_all(self, dtype):
        """Errors of out and each gradient: the root of their mean square, in units of their bounds, of what is served
        is at most twice PyTorch's own."""
        ours, own = ({name: [] for name in ("out", "dquery", "dkey", "dvalue")} for _ in range(2))
        for name in NAMES:
            for sample in samples(name, dtype):
                found, served = self.enabled(name, sample, dtype)
                if not served:
                    continue
                right, theirs = bounded(sample, dtype), results(stock(name), sample, dtype)
                for i, result in enumerate(ours):
                    ours[result].append(self.factors(found[i:i + 1], right[i:i + 1]))
                    own[result].append(self.factors(theirs[i:i + 1], right[i:i + 1]))
        for result in ours:
            error, their_error = (torch.cat(x[result]).square().mean().sqrt().item() for x in (ours, own))
            print(f"{dtype}, {len(ours[result])} samples, {result}: {error:.3g} of the bound, PyTorch's own "
                  f"{their_error:.3g}")
            with self.subTest(result):
                self.assertLessEqual(error, 2 * their_error)

    def test_sharp_logits_in_16_bits(self):
        """Gradients at logits of 100 to 200, of an out that was rounded: the root of their errors' mean square is that
        of PyTorch's own kernel, and an eighth for chance."""
        columns = samples(KERNEL, torch.float32)[0][0][0].shape[-1]  # whose kernels are there
        for dtype in TYPES[1:]:
            ours, own = ({name: 0.0 for name in ("dquery", "dkey", "dvalue")} for _ in range(2))
            for draw in range(12):
                torch.manual_seed(draw)
                sample = [(torch.randn(1, 2, rows, columns) * size).to(dtype).requires_grad_()
                          for rows, size in ((24, 36 * 2**(draw / 12)), (40, 1), (40, 1))], {}
                right = results(exact, sample, torch.float64)
                found, served = self.enabled(ATTENTION, sample, dtype)
                self.assertTrue(served)
                for i, name in enumerate(ours, 1):
                    ours[name] += (found[i] - right[i]).square().sum().item()
                    own[name] += (results(stock(ATTENTION), sample, dtype)[i] - right[i]).square().sum().item()
            for name in ours:
                ratio = math.sqrt(ours[name] / own[name])
                print(f"{dtype}, logits of 100 to 200, {name}: {ratio:.2f} of PyTorch's own error")
                with self.subTest(name):
                    self.assertLessEqual(ratio, 1.125)


for _type in (*TYPES, DECLINED):
    _name = str(_type)[6:]
    if _type != DECLINED:
        setattr(Samples, f"test_as_near_as_pytorch_{_name}", lambda self, t=_type: self.check_all(t))
    for _operator in (*NAMES, LAYER):
        for _number, _sample in enumerate(samples(_operator, _type)):
            if _operator != LAYER:
                setattr(Samples, f"test_{SHORT[_operator]}_{_name}_{_number:02}",
                        lambda self, n=_operator, s=_sample, t=_type: self.check(n, s, t))
            setattr(Samples, f"test_copy_on_write_{SHORT[_operator]}_{_name}_{_number:02}",
                    lambda self, n=_operator, s=_sample, t=_type: self.check_copy_on_write(n, s, t))


if __name__ == "__main__":
    unittest.main()
