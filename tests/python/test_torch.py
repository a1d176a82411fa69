"""PyTorch: its attention replaced and put back, its gradients, its layouts, what is declined; the operator of our
own."""
import multiprocessing
import os
import subprocess
import sys
import unittest
import warnings
from functools import partial
from unittest import mock

import torch
from torch.nn.functional import scaled_dot_product_attention

import clattn.torch
from clattn._torch_operator import Given, Said

HAS_FLOAT64 = next(device["float64"] for device in clattn.devices() if device["chosen"])
OPERATOR = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def inputs(kv_heads=4, rows=9, keys=9, dtype=torch.float32):
    return normal(2, 4, rows, 16, dtype=dtype), normal(2, kv_heads, keys, 16, seed=1, dtype=dtype), \
        normal(2, kv_heads, keys, 16, seed=2, dtype=dtype)


def with_gradients(three, **options):
    leaves = [x.clone().requires_grad_() for x in three]
    out = scaled_dot_product_attention(*leaves, **options)
    (out * normal(*out.shape, seed=9).to(out.dtype)).sum().backward()
    return [out.detach()] + [leaf.grad for leaf in leaves]


class Enabled(unittest.TestCase):
    def setUp(self):
        clattn.torch.disable()
        clattn.torch.report(clear=True)

    tearDown = setUp

    def ours(self, call):
        clattn.torch.enable()
        try:
            return call()
        finally:
            clattn.torch.disable()

    def check(self, call, served=None, tolerance=5e-6):
        stock, ours = call(), self.ours(call)
        for one, other in zip(stock, ours):
            self.assertEqual((one.shape, one.stride(), one.dtype), (other.shape, other.stride(), other.dtype))
            self.assertLessEqual((one.double() - other.double()).abs().max().item(), tolerance)
        if served is not None:
            self.assertEqual(clattn.torch.report(clear=True), {"served": served, "declined": {}})

    def test_forward_and_backward(self):
        for options in ({}, {"is_causal": True}, {"scale": -0.3}, {"scale": 0.0}):
            self.check(lambda o=options: with_gradients(inputs(), **o), {"forward": 1, "backward": 1})

    def test_causal_stands_at_the_top_left(self):
        self.check(lambda: with_gradients(inputs(rows=5, keys=9), is_causal=True), {"forward": 1, "backward": 1})

    def test_grouped_heads(self):
        self.check(lambda: with_gradients(inputs(kv_heads=2), enable_gqa=True), {"forward": 1, "backward": 1})

    def test_masks(self):
        mask = normal(2, 1, 9, 9) > 0
        mask |= torch.eye(9, dtype=torch.bool)
        for given in (mask, mask[:1, :, :1] | True, normal(9, 9, seed=4), normal(2, 4, 9, 9, seed=5)):
            self.check(lambda m=given: with_gradients(inputs(), attn_mask=m), {"forward": 1, "backward": 1})

    def test_rows_without_a_key(self):
        mask = torch.ones(9, 9, dtype=torch.bool)
        mask[3] = False
        found = self.ours(lambda: with_gradients(inputs(), attn_mask=mask))
        self.assertTrue((found[0][:, :, 3] == 0).all() and (found[1][:, :, 3] == 0).all())
        self.assertTrue(all(torch.isfinite(x).all() for x in found))
        self.check(lambda: with_gradients(inputs(), attn_mask=mask))
        bias = torch.zeros(9, 9).masked_fill(~mask, float("-inf"))
        self.check(lambda: OPERATOR(*inputs(), attn_mask=bias))  # lse of that row is 0 there

    def test_types(self):
        for dtype, tolerance in ((torch.float16, 2e-2), (torch.bfloat16, 2e-1)):
            self.check(lambda d=dtype: with_gradients(inputs(dtype=d)), {"forward": 1, "backward": 1}, tolerance)
            self.check(lambda d=dtype: OPERATOR(*inputs(dtype=d)), {"forward": 1}, tolerance)

    def test_what_a_matrix_unit_may_round(self):
        """It is said of the types that have it: a call of another is not declined."""
        def call():
            clattn.torch.enable(allow_rounded_weights=True, allow_tf32=True)
            self.assertIn(("allow_rounded_weights", 1), clattn._torch_sdpa._kernel_options(False, torch.bfloat16))
            self.assertIn(("allow_tf32", 1), clattn._torch_sdpa._kernel_options(False, torch.float32))
            return [x for dtype in (torch.float32, torch.bfloat16, torch.float16) for x in
                    with_gradients(inputs(dtype=dtype))]

        stock = [x for dtype in (torch.float32, torch.bfloat16, torch.float16)
                 for x in with_gradients(inputs(dtype=dtype))]
        for one, other in zip(stock, self.ours(call)):
            self.assertLessEqual((one.double() - other.double()).abs().max().item(), 2e-1)
        self.assertEqual(clattn.torch.report(clear=True), {"served": {"forward": 3, "backward": 3}, "declined": {}})
        clattn.torch.enable()
        self.assertIn(("allow_rounded_weights", 0), clattn._torch_sdpa._kernel_options(False, torch.bfloat16))

    def test_layouts(self):
        projected = normal(2, 9, 3, 4, 16)
        three = [projected[:, :, i].transpose(1, 2) for i in range(3)]
        before = clattn._context.default_context().bytes_copied
        self.check(lambda: OPERATOR(*three), {"forward": 1})
        expanded = [x[:, :1].expand(2, 4, 9, 16) for x in inputs()]
        self.check(lambda: [OPERATOR(*expanded)[0].contiguous()], {"forward": 1})
        if "used where it lies" in clattn.explain((2, 4, 9, 16)):
            self.assertEqual(clattn._context.default_context().bytes_copied, before)

    def test_what_is_declined_is_pytorchs_and_counted(self):
        def call():
            return with_gradients(inputs(dtype=torch.float64))

        stock, ours = call(), self.ours(call)
        self.assertTrue(all(torch.equal(one, other) for one, other in zip(stock, ours)))
        report = clattn.torch.report(clear=True)
        self.assertEqual((report["served"], list(report["declined"].values())), ({}, [2]))
        self.assertIn("float64", next(iter(report["declined"])))

    def test_nothing_is_enabled_by_an_import(self):
        program = ("import clattn.torch, clattn.transformers, torch; assert not clattn.torch.is_enabled(); "
                   "x = torch.ones(1, 1, 2, 8); torch.nn.functional.scaled_dot_product_attention(x, x, x); "
                   "assert clattn.torch.report() == {'served': {}, 'declined': {}}")
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_threads_that_spin_are_told_of_once(self):
        def told(threads, **environment):
            """Warnings of each way to be the first."""
            others = {name: value for name, value in os.environ.items()
                      if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
            found = []
            for first in (clattn.torch.enable, lambda: clattn.torch.attention(*inputs())):
                clattn._torch_calls.made_before.calls.clear()
                with mock.patch.dict(os.environ, {**others, **environment}, clear=True), \
                        mock.patch.object(torch, "get_num_threads", return_value=threads), \
                        mock.patch.object(clattn._torch_calls, "_is_told", False), \
                        warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    first()
                    clattn.torch.enable()
                    clattn.torch.attention(*inputs())
                found.append(sum("OMP_WAIT_POLICY=PASSIVE" in str(one.message) for one in caught))
                clattn.torch.disable()
            return found

        self.assertEqual(told(2), [1, 1])
        self.assertEqual(told(2, OMP_WAIT_POLICY="active"), [1, 1])
        for threads, environment in ((1, {}), (2, {"OMP_WAIT_POLICY": "passive"}), (2, {"GOMP_SPINCOUNT": "0"})):
            self.assertEqual(told(threads, **environment), [0, 0])

    def test_masks_are_not_made_contiguous(self):
        """What is broadcast comes to the library with strides of 0: a mask of a long text is never written out."""
        three, mask = inputs(rows=7, keys=11), (normal(2, 1, 1, 11) > -1).expand(2, 4, 7, 11)
        wide = torch.zeros(2, 1, 1, 11).expand(2, 4, 7, 11)
        for call in (lambda: clattn.torch.attention(*three, mask=mask),
                     lambda: clattn.torch.attention(*three, bias=wide),
                     lambda: self.ours(lambda: OPERATOR(*three, attn_mask=wide))):
            clattn._prepared._prepared.clear()
            clattn._torch_calls.made_before.calls.clear()
            call()
            (prepared,) = clattn._prepared._prepared.values()
            (strides,) = [found.strides for name, found, _ in prepared.fields if name in ("mask", "bias")]
            self.assertEqual(strides[1:3], (0, 0))

    def test_disable_gives_the_bits_back(self):
        before = OPERATOR(*inputs())
        self.ours(lambda: OPERATOR(*inputs()))
        after = OPERATOR(*inputs())
        self.assertTrue(torch.equal(before[0], after[0]) and torch.equal(before[1], after[1]))
        self.assertFalse(clattn.torch.is_enabled())
        for _ in range(3):
            self.ours(lambda: clattn.torch.enable())

    @unittest.skipUnless(hasattr(torch.nn.attention, "activate_flash_attention_impl"), "no registry in this PyTorch")
    def test_registry_of_pytorch(self):
        torch.nn.attention.activate_flash_attention_impl("clattn")
        self.assertTrue(clattn.torch.is_enabled())
        OPERATOR(*inputs())
        self.assertEqual(clattn.torch.report()["served"], {"forward": 1})
        torch.nn.attention.restore_flash_attention_impl()
        self.assertFalse(clattn.torch.is_enabled())

    def test_multihead_attention_module(self):
        module = torch.nn.MultiheadAttention(32, 4, batch_first=True).train()
        hidden, hides = torch.zeros(2, 7, dtype=torch.bool), normal(2, 7, 32)
        hidden[1, 5:] = True
        self.check(lambda: module(hides, hides, hides, key_padding_mask=hidden, need_weights=False)[:1], {"forward": 1})
        with torch.no_grad():  # where PyTorch has a faster path, past its attention function
            self.check(lambda: module.eval()(hides, hides, hides, key_padding_mask=hidden, need_weights=False)[:1], {})

    def test_other_columns_of_values_and_dropout_are_pytorchs(self):
        """They never come to the kernel; clattn.torch.attention has the first."""
        query, key, value = inputs()
        self.check(lambda: [scaled_dot_product_attention(query, key, value[..., :8])], {})
        with torch.random.fork_rng():
            self.check(lambda: [torch.manual_seed(1) and
                                scaled_dot_product_attention(query, key, value, dropout_p=0.5)], {})
        found = clattn.torch.attention(query, key, value[..., :8])
        self.assertLessEqual((found - scaled_dot_product_attention(query, key, value[..., :8])).abs().max().item(),
                             5e-6)

    def test_compiled(self):
        three = inputs()

        def model(query, key, value):
            return scaled_dot_product_attention(query * 2, key, value, is_causal=True) + 1

        stock = model(*three)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        ours = self.ours(lambda: compiled(*three))
        self.assertLessEqual((stock - ours).abs().max().item(), 5e-6)
        self.assertEqual(clattn.torch.report()["served"], {"forward": 1})

    def test_a_forked_worker_uses_pytorch(self):
        clattn.torch.enable()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()

        def work():
            torch.set_num_threads(1)
            out = OPERATOR(*inputs(rows=1, keys=1))[0]
            queue.put((tuple(out.shape), list(clattn.torch.report()["declined"])))

        child = context.Process(target=work)
        child.start()
        shape, reasons = queue.get(timeout=120)
        child.join()
        self.assertEqual(shape, (2, 4, 1, 16))
        self.assertIn("forked", reasons[0])


    def test_shapes_that_do_not_fit_are_declined(self):
        query, key, value = inputs()
        out, lse = OPERATOR(query, key, value)
        for three in ((query, key[:1], value[:1]), (query, key, value[:, :, :5]), (query, key[..., :8], value),
                      (query, key, value[..., :8]), (query[0], key[0], value[0]), (query, key, value[:, :2])):
            with self.assertRaises(clattn.Error):
                clattn._torch_sdpa._arguments(*three, None, False, None)
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        stock = []
        with mock.patch.dict(clattn._torch_sdpa._originals,
                             {name: mock.Mock(call_boxed=lambda *given, **named: stock.append(
                given)) for name in (clattn._torch_sdpa._FORWARD, clattn._torch_sdpa._BACKWARD)}):
            clattn._torch_sdpa._forward(keys, query, key[:1], value[:1])
            for change in ({"grad_out": out[:, :, :3]}, {"out": out[..., :3]}, {"lse": lse[:1]}, {"key": key[:1]},
                           {"lse": lse.double()}, {"grad_out": out.double()}):
                given = {"grad_out": out, "query": query, "key": key, "value": value, "out": out, "lse": lse, **change}
                clattn._torch_sdpa._backward(keys, *given.values(), 0.0, False)
        self.assertEqual(len(stock), 7)
        self.assertEqual(clattn.torch.report()["served"], {})

    def test_an_older_pytorch_is_named(self):
        with mock.patch.object(torch.library, "get_kernel"):
            del torch.library.get_kernel
            with self.assertRaisesRegex(clattn.Unsupported, "get_kernel"):
                clattn.torch.enable()
        self.assertFalse(clattn.torch.is_enabled())


class Operator(unittest.TestCase):
    def test_shapes_that_do_not_fit_are_refused(self):
        query, key, value = inputs()
        backward = torch.ops.clattn.attention_backward
        rest = (*Given(query, key, value)[3:], *Said())
        out, lse = torch.ops.clattn.attention(query, key, value, *rest)
        for three, text in (((query, key[:1], value[:1]), "batch: query has 2"),
                            ((query, key, value[:, :, :5]), "key and value: batch, heads and rows"),
                            ((query, key, value[:, :2]), "key and value: batch, heads and rows"),
                            ((query, key[..., :8], value), "head_dim: query has 16"),
                            ((query[0], key[0], value[0]), "query: has shape .* must be .batch, heads, rows, columns"),
                            ((query.int(), key, value), "query: type int32")):
            with self.assertRaisesRegex(clattn.Error, text):
                clattn.torch.attention(*three)
            with self.assertRaisesRegex(clattn.Error, text):
                backward(out, None, out, lse, *three, *rest, *[False] * 4)
        for change, text in (({"grad_out": out[:1]}, "dout: "), ({"out": out[:, :, :2]}, "out: "),
                             ({"lse": lse[:, :2]}, "lse: "), ({"lse": lse.double()}, "lse: "),
                             ({"key": key.to(torch.int8)}, "key: type int8")):
            given = {"grad_out": out, "grad_lse": None, "out": out, "lse": lse, "query": query, "key": key,
                     "value": value,
                     **change}
            with self.assertRaisesRegex(clattn.Error, text):
                backward(*given.values(), *rest, *[False] * 4)

    def test_what_a_matrix_unit_may_round(self):
        half, asks = inputs(dtype=torch.bfloat16), inputs()
        right = clattn.torch.attention(*half)
        found = clattn.torch.attention(*half, allow_rounded_weights=True)
        self.assertLessEqual((found - right).abs().max().item(), 2e-2)
        leaves = [x.clone().requires_grad_() for x in half]
        clattn.torch.attention(*leaves, allow_rounded_weights=True).sum().backward()
        asks[0].requires_grad_()
        for three in (inputs(), asks):
            with self.assertRaisesRegex(clattn.InvalidArgument, "allow_rounded_weights 1: needs type"):
                clattn.torch.attention(*three, allow_rounded_weights=True)
            clattn.torch.attention(*three, allow_tf32=True)
        with self.assertRaisesRegex(clattn.InvalidArgument, "allow_tf32 1: needs type"):
            clattn.torch.attention(*half, allow_tf32=True)

    def test_a_window_without_a_bound(self):
        found = clattn.torch.attention(*inputs(), window=(None, 1), alignment="top-left")
        mask = torch.ones(9, 9, dtype=torch.bool).tril(1)
        self.assertLessEqual((found - scaled_dot_product_attention(*inputs(), attn_mask=mask)).abs().max().item(), 5e-6)

    def test_scales_beside_codes(self):
        """Those with zero points, and with a scale of the tensor; in torch.compile too."""
        query, key, value = normal(1, 4, 2, 32), normal(1, 2, 6, 32, seed=1), normal(1, 2, 6, 32, seed=2)
        for kind, more in (("u4", {"columns": 16}), ("nvfp4", {"tensor_scale": 0.5})):
            made = [clattn.quantise_rows(x.numpy(), kind, **more) for x in (key, value)]
            right = clattn.torch.attention(query, *(torch.from_numpy(clattn.dequantise_rows(codes, kind, by))
                                                    for codes, by in made))
            codes = [torch.from_numpy(codes) for codes, _ in made]
            by = [clattn.Scales(*(x if x is None else torch.from_numpy(x) for x in by[:2]), by[2]) for _, by in made]
            call = partial(clattn.torch.attention, key=codes[0], value=codes[1], key_type=kind, value_type=kind,
                           key_scales=by[0], value_scales=by[1])
            torch.testing.assert_close(call(query), right, rtol=1e-5, atol=1e-5)
            compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
            self.assertTrue(torch.equal(compiled(query), call(query)))
            self.assertRaisesRegex(clattn.InvalidArgument, "gradients", call, query.clone().requires_grad_())

    def test_gradients_are_never_lost_in_silence(self):
        query, key, value = inputs()
        asks = query.clone().requires_grad_()
        for call in (lambda: clattn.attention(asks, key, value), lambda: clattn.attention(query, key, asks),
                     lambda: clattn.attention(query, key, value, sinks=torch.zeros(4).requires_grad_())):
            with self.assertRaisesRegex(clattn.InvalidArgument, "clattn.torch.attention"):
                call()
            with torch.no_grad():
                self.assertFalse(call().requires_grad)
        with torch.no_grad(), self.assertRaisesRegex(clattn.InvalidArgument, "out: .*requires"):
            clattn.attention(query, key, value, out=asks)

    @unittest.skipUnless(HAS_FLOAT64, "the device has no float64")
    def test_gradients(self):
        def float64(*shape, seed):
            return normal(*shape, seed=seed, dtype=torch.float64).requires_grad_()

        query, key, value = (float64(1, h, n, 3, seed=s) for h, n, s in ((2, 3, 0), (1, 4, 1), (1, 4, 2)))
        bias = float64(2, 1, 4, seed=3)
        mask = torch.tensor([True, True, False, True])

        def call(q, k, v, b):
            return clattn.torch.attention(q, k, v, bias=b, mask=mask, causal="bottom-right", softcap=2.0)

        self.assertTrue(torch.autograd.gradcheck(call, (query, key, value, bias), atol=1e-6))

    def test_gradients_of_sinks_and_slopes(self):
        three = [x[:1, :2, :5].clone() for x in inputs()]
        sinks, slopes = torch.randn(2).requires_grad_(), torch.rand(2).requires_grad_()
        out = clattn.torch.attention(*three, sinks=sinks, slopes=slopes, alignment="bottom-right")
        out.square().sum().backward()
        distance = (torch.arange(5)[:, None] - torch.arange(5)[None, :]).abs()
        ours = sinks.grad.clone(), slopes.grad.clone()
        sinks.grad = slopes.grad = None
        scores = three[0] @ three[1].mT / 4 - slopes[:, None, None] * distance
        weights = torch.cat([scores, sinks.reshape(1, 2, 1, 1).expand(1, 2, 5, 1)], -1).softmax(-1)[..., :-1]
        (weights @ three[2]).square().sum().backward()
        for one, other in zip(ours, (sinks.grad, slopes.grad)):
            self.assertLessEqual((one - other).abs().max().item(), 1e-5)

    def test_compiled_without_a_graph_break(self):
        leaves = [x.requires_grad_() for x in inputs()]

        def model(q, k, v):
            return clattn.torch.attention(q.sin(), k, v, causal="bottom-right", window=3).cos().sum()

        model(*leaves).backward()
        eager = [leaf.grad.clone() for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        torch.compile(model, fullgraph=True, backend="aot_eager")(*leaves).backward()
        for leaf, right in zip(leaves, eager):
            self.assertLessEqual((leaf.grad - right).abs().max().item(), 1e-6)

    def test_heads_are_joined_without_a_copy(self):
        """A model's heads are views of rows that lie together; so are the results."""
        leaves = [normal(2, 9, 4, 16, seed=i).transpose(1, 2).requires_grad_() for i in range(3)]
        out = clattn.torch.attention(*leaves)
        self.assertTrue(out.transpose(1, 2).is_contiguous())
        for grad in torch.autograd.grad(out.sum(), leaves):
            self.assertTrue(grad.transpose(1, 2).is_contiguous())
        self.assertTrue(clattn.torch.attention(*inputs()).is_contiguous())
        self.assertTrue(torch.equal(out, clattn.torch.attention(*[x.contiguous() for x in leaves])))

    def test_as_pytorch_wants_operators(self):
        for three in (inputs(), [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs()]):
            arguments = (*Given(*three), *Said("top-left"))
            torch.library.opcheck(torch.ops.clattn.attention.default, arguments,
                                  test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))


if __name__ == "__main__":
    unittest.main()
