"""clattn.torch.attention goes past PyTorch's dispatcher only where that would do nothing but call the kernel: all that
watches or transforms calls still sees an operator, and calls that were made before differ in addresses only."""
import itertools
import threading
import unittest
import weakref
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import clattn.torch

ATTENTION = clattn.torch.attention


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def inputs(rows=9, dtype=torch.float32):
    return [normal(2, 4, rows, 16, seed=seed, dtype=dtype) for seed in range(3)]


class Seen(TorchDispatchMode):
    """The names of operators."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Labelled(torch.Tensor):
    """A class of somebody's own: results have it too."""


class Dispatch(unittest.TestCase):
    def plain(self, call):
        """Whether the call went past the dispatcher."""
        with mock.patch.object(clattn.torch, "operator", wraps=clattn.torch.operator) as operator:
            call()
        return not operator.called

    def test_plain_calls_go_past_the_dispatcher(self):
        three = inputs()
        self.assertTrue(self.plain(lambda: ATTENTION(*three)))
        self.assertTrue(self.plain(lambda: ATTENTION(*three, mask=torch.ones(9, 9, dtype=torch.bool),
                                                     sinks=torch.zeros(4))))
        with torch.inference_mode():
            self.assertTrue(self.plain(lambda: ATTENTION(*inputs())))
        weights = torch.nn.Parameter(three[0])
        self.assertFalse(self.plain(lambda: ATTENTION(weights, *three[1:])))
        with torch.no_grad():
            self.assertTrue(self.plain(lambda: ATTENTION(weights, *three[1:])))

    def test_modes_see_an_operator(self):
        with Seen() as seen:
            ATTENTION(*inputs())
        self.assertIn("clattn.attention.default", seen.names)
        with Functions() as functions:
            ATTENTION(*inputs())
        self.assertTrue(any("clattn" in name for name in functions.names), functions.names)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            ATTENTION(*inputs())
        self.assertIn("clattn::attention", [event.key for event in profile.key_averages()])

    def test_fake_tensors_are_not_computed(self):
        with FakeTensorMode() as mode:
            out = ATTENTION(*[mode.from_tensor(x) for x in inputs()])
        self.assertEqual((type(out).__name__, tuple(out.shape)), ("FakeTensor", (2, 4, 9, 16)))

    def test_traced(self):
        graph = make_fx(lambda q, k, v: ATTENTION(q, k, v, causal="top-left"))(*inputs())
        self.assertIn("clattn.attention.default", graph.code)
        other = [x * 2 for x in inputs()]
        self.assertTrue(torch.equal(graph(*other), ATTENTION(*other, causal="top-left")))

    def test_exported(self):
        class Model(torch.nn.Module):
            def forward(self, query, key, value):
                return ATTENTION(query, key, value, window=(3, 0), alignment="top-left")

        with torch.no_grad():
            program = torch.export.export(Model(), tuple(inputs()))
        self.assertIn("clattn.attention", str(program.graph))
        self.assertTrue(torch.equal(program.module()(*inputs()), Model()(*inputs())))

    def test_compiled_without_gradients(self):
        """As models are compiled to write: fullgraph, and rows that change."""
        def model(query, key, value):
            return ATTENTION(query + 1, key, value, causal="bottom-right", softcap=3.0) * 2

        compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
        with torch.no_grad():
            for rows in (9, 11, 5):
                self.assertTrue(torch.equal(compiled(*inputs(rows)), model(*inputs(rows))))

    def test_vmap(self):
        three = [torch.stack([x, x * 2]) for x in inputs()]
        found = torch.func.vmap(ATTENTION)(*three)
        for i in range(2):
            self.assertTrue(torch.equal(found[i], ATTENTION(*[x[i] for x in three])))

    def test_derivatives_are_never_lost_in_silence(self):
        """What PyTorch's operators of Python have not: gradients of torch.func. Tangents go on."""
        query, key, value = inputs()
        with self.assertRaises(RuntimeError):
            torch.func.grad(lambda q: ATTENTION(q, key, value).square().sum())(query)
        _, pushed = torch.func.jvp(lambda q: ATTENTION(q, key, value), (query,), (torch.ones_like(query),))
        self.assertGreater(float(pushed.abs().max()), 0)
        with torch.autograd.forward_ad.dual_level():
            self.assertTrue(torch.equal(ATTENTION(query, key, value), ATTENTION(*inputs())))
            dual = torch.autograd.forward_ad.make_dual(query, torch.ones_like(query))
            bias = torch.autograd.forward_ad.make_dual(normal(9, 9), torch.ones(9, 9))
            for out in ATTENTION(dual, key, value), ATTENTION(query, key, value, bias=bias):
                self.assertIsNotNone(torch.autograd.forward_ad.unpack_dual(out).tangent)
            found = torch.autograd.forward_ad.unpack_dual(ATTENTION(dual, key, value))
            self.assertTrue(torch.equal(found.tangent, pushed))

    def test_a_class_of_tensors_stays(self):
        three = [x.as_subclass(Labelled) for x in inputs()]
        for _ in range(2):
            self.assertIs(type(ATTENTION(*three)), Labelled)

    def test_a_default_device_changes_nothing(self):
        right = ATTENTION(*inputs())
        stock = scaled_dot_product_attention(*inputs())
        with torch.device("meta"):
            again = ATTENTION(*[x for x in self.made_before])
            clattn.torch.enable()
            try:
                enabled = [scaled_dot_product_attention(*self.made_before) for _ in range(2)]
            finally:
                clattn.torch.disable()
        self.assertTrue(torch.equal(right, again))
        for found in enabled:
            self.assertLessEqual((found - stock).abs().max().item(), 5e-6)

    def setUp(self):
        clattn.torch.disable()
        clattn.torch.report(clear=True)
        self.made_before = inputs()

    def test_places_are_checked(self):
        self.assertTrue(ATTENTION(*[x.to("meta") for x in inputs()]).is_meta)
        with self.assertRaises((clattn.Error, NotImplementedError, RuntimeError)):
            ATTENTION(inputs()[0].to_sparse(), *inputs()[1:])


class Again(unittest.TestCase):
    """Calls with tensors of the same shapes: only the first is prepared."""

    def setUp(self):
        clattn.torch.disable()
        clattn._torch_calls.made_before.calls.clear()

    def test_what_is_said_tells_calls_apart(self):
        three, mask = inputs(), torch.ones(9, 9, dtype=torch.bool).tril()
        bias = torch.zeros(9, 9).masked_fill(~mask, float("-inf"))
        calls = [dict(zip(("causal", "scale", "softcap", "window", "alignment", "mask", "bias"), given))
                 for given in itertools.product((None, "top-left"), (None, 0.5), (None, 2.0), (None, 2), ("top-left",),
                                                (None, mask), (None, bias))]
        first = [ATTENTION(*three, **call) for call in calls]
        self.assertEqual(len(clattn._torch_calls.made_before.calls), len(calls))
        for call, right in zip(calls, first):
            self.assertTrue(torch.equal(ATTENTION(*three, **call), right), call)
        other = [x * 2 for x in three]
        for call in calls:
            right = ATTENTION(*other, **call)
            clattn._torch_calls.made_before.calls.clear()
            self.assertTrue(torch.equal(ATTENTION(*other, **call), right), call)

    def test_strides_tell_calls_apart(self):
        query, key, value = inputs()
        apart = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value)]
        flat = key[:, :1].expand(2, 4, 9, 16)
        for three in itertools.product((query, apart[0]), (key, apart[1], flat), (value, apart[2])):
            right = ATTENTION(*[x.clone(memory_format=torch.contiguous_format) for x in three])
            for _ in range(2):
                self.assertTrue(torch.equal(ATTENTION(*three), right))
        self.assertEqual(ATTENTION(*apart).stride(), apart[0].stride())

    def test_true_is_not_one(self):
        three = inputs()
        for name in ("scale", "softcap"):
            ATTENTION(*three, **{name: 1.0})
            with self.assertRaisesRegex(clattn.InvalidArgument, f"^{name} True"):
                ATTENTION(*three, **{name: True})

    def test_lse_is_computed_where_it_is_wanted(self):
        three = inputs()
        for _ in range(2):
            self.assertIsInstance(ATTENTION(*three), torch.Tensor)
            out, lse = ATTENTION(*three, return_lse=True)
            scores = (three[0].double() @ three[1].double().mT / 4).logsumexp(-1)
            self.assertLessEqual((lse - scores).abs().max().item(), 2e-6)
            self.assertTrue(torch.equal(out, ATTENTION(*three)))

    def test_a_scale_in_a_tensor_is_read_each_time(self):
        three, scale = inputs(), torch.tensor(0.5)
        half = ATTENTION(*three, scale=scale)
        scale.fill_(1.0)
        self.assertTrue(torch.equal(half, ATTENTION(*three, scale=0.5)))
        self.assertTrue(torch.equal(ATTENTION(*three, scale=scale), ATTENTION(*three, scale=1.0)))

    def test_calls_are_bounded_and_keep_no_tensor(self):
        kept = []
        for rows in range(1, 20):
            three = inputs(rows)
            for _ in range(2):
                kept += [weakref.ref(x) for x in (*three, ATTENTION(*three))]
        del three
        self.assertEqual(sum(found() is not None for found in kept), 0)
        with mock.patch.object(clattn._prepared, "KEPT", 4):
            for rows in range(20, 30):
                ATTENTION(*inputs(rows))
            self.assertLessEqual(len(clattn._torch_calls.made_before.calls), 4)

    def test_a_call_that_failed_is_not_kept(self):
        query, key, value = inputs()
        for _ in range(2):
            with self.assertRaises(clattn.Error):
                ATTENTION(query, key[:, :3], value[:, :3])
        self.assertEqual(len(clattn._torch_calls.made_before.calls), 0)

    def test_threads(self):
        wrong, calls = [], 25
        every = [[x * (number + 1) for x in inputs()] for number in range(8)]
        alone = [ATTENTION(*three) for three in every]

        def work(number):
            for _ in range(calls):
                if not torch.equal(ATTENTION(*every[number]), alone[number]):
                    wrong.append(number)

        clattn.torch.report(clear=True)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(wrong, [])
        self.assertEqual(clattn.torch.report(clear=True)["served"], {"attention": 8 * calls})


if __name__ == "__main__":
    unittest.main()
