"""clattn.torch.flex_attention as a part of models: in graphs of torch.compile without a break, under checkpoints, hooks
of saved tensors, autocast and transforms of functions; each beside the eager call."""
import os
import unittest
import unittest.mock
import warnings

import torch
import torch._dynamo.testing
from torch.nn.attention import flex_attention as stock
from torch.utils.checkpoint import checkpoint

import clattn.torch
from clattn import _torch_flex, _torch_flex_graph

HEADS, ROWS = 4, 70
IS_LONG = bool(os.environ.get("CLATTN_TEST_LONG"))  # each graph costs Dynamo a second


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def inputs(rows=ROWS, kv_heads=HEADS, dtype=torch.float32):
    return [normal(2, HEADS if n == 0 else kv_heads, rows, 16, seed=n, dtype=dtype).requires_grad_() for n in range(3)]


class Layer(torch.nn.Module):
    """What a graph may find: a table that is learned and used twice, numbers, a tensor of the call."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(normal(HEADS, 41, seed=9))
        self.strength = 3

    def forward(self, query, key, value, ids):
        strength, last = self.strength, query.shape[2] - 1

        def score_mod(score, b, h, q_idx, kv_idx):
            near = self.table[h, (q_idx - kv_idx).clamp(0, 40)] * strength
            return score + near + (self.table * 2)[0, q_idx % 41] * (q_idx == last) + torch.exp2(-(h + 1) * 2.0)

        def mask_mod(b, h, q_idx, kv_idx):
            return (ids[q_idx] == ids[kv_idx]) & (q_idx >= kv_idx)
        count = -(-query.shape[2] // 16)
        mask = stock.BlockMask.from_kv_blocks(torch.arange(1, count + 1).int()[None, None],
                                              torch.arange(count).int().expand(1, 1, count, count), BLOCK_SIZE=16,
                                              mask_mod=mask_mod, seq_lengths=(query.shape[2], key.shape[2]))
        return clattn.torch.flex_attention(query * 1, key, value, score_mod, mask, return_lse=True)


def alibi(score, b, h, q_idx, kv_idx):
    return score + torch.exp2(-(h + 1) * 8 / HEADS) * (kv_idx - q_idx)


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


class Models(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        torch._dynamo.reset()

    def results(self, function, given, learned=()):
        out, lse = function(*given)
        loss = out.float().square().sum() + lse.sum()
        of = [x for x in (*given, *learned) if x.requires_grad]
        return out, lse, *torch.autograd.grad(loss, of)

    def assert_same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
            self.assertTrue(torch.equal(one, other))

    def test_a_layer_is_one_graph(self):
        """Bit for bit the eager call's, for a second length too, which compiles the graph for any."""
        layer = Layer()
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        for rows in (ROWS, ROWS + 13):
            given = *inputs(rows), torch.arange(rows) // 20
            self.assert_same(self.results(compiled, given, [layer.table]), self.results(layer, given, [layer.table]))
        with torch.no_grad():
            given = *inputs(), torch.arange(ROWS) // 9
            self.assert_same(compiled(*given), layer(*given))

    def test_what_a_graph_is_given(self):
        """No functions, one of both, grouped heads and a scale; a mask that was made before, of blocks alone, too."""
        mask = stock.create_block_mask(causal, None, None, ROWS, ROWS, device="cpu", BLOCK_SIZE=16)
        blocks = stock.BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, BLOCK_SIZE=16,
                                                seq_lengths=(ROWS, ROWS))
        every = ((None, None, {}), (alibi, None, {"scale": 0.3}), (None, mask, {}), (alibi, mask, {"enable_gqa": True}),
                 (alibi, blocks, {}))
        for score_mod, block_mask, options in every[0 if IS_LONG else 3:]:
            def function(query, key, value):
                return clattn.torch.flex_attention(query, key, value, score_mod, block_mask, return_lse=True, **options)
            given = inputs(kv_heads=2 if options.get("enable_gqa") else HEADS)
            torch._dynamo.reset()
            self.assert_same(self.results(torch.compile(function, backend="aot_eager", fullgraph=True), given),
                             self.results(function, given))

    def test_graphs_are_told_apart(self):
        """They differ in a number alone, of what the function captures or its own: two that are computed alike are one
        tensor in a graph, and have two gradients."""
        table = normal(ROWS).requires_grad_()
        for factor, strength in ((2, 0.5), (3, 0.5), (3, 0.25))[:3 if IS_LONG else 2]:
            def function(query, key, value, table):
                doubled, other = table * 2, table * factor
                return clattn.torch.flex_attention(query, key, value, lambda s, b, h, q, k: torch.tanh(
                    s * doubled[q]) + other[k] * strength, return_lse=True)
            torch._dynamo.reset()
            given = *[x.detach() for x in inputs()], table
            self.assert_same(self.results(torch.compile(function, backend="aot_eager", fullgraph=True), given),
                             self.results(function, given))

    def test_numbers_that_a_function_captures(self):
        """The second value makes the graph one of any; none is cut to a whole number."""
        def function(query, key, value, number):
            return clattn.torch.flex_attention(query, key, value, lambda s, b, h, q, k: s * number)
        given = [x.detach() for x in inputs()]
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        for number in (0.5, 0.25, 0.75):
            self.assertTrue(torch.equal(compiled(*given, number), function(*given, number)))

    def test_what_is_served_breaks_no_graph(self):
        """PyTorch's own function by enable(flex=True): graphs are counted, of a layer with its gradients, of what is
        declined by the arguments, and of what the operator declines, which PyTorch computes as it would have."""
        mask = stock.create_block_mask(causal, None, None, ROWS, ROWS, device="cpu", BLOCK_SIZE=16)

        def served(query, key, value, ids):
            table, out = torch.tanh(layer.table), stock.flex_attention(query * 1, key, value, alibi, mask)
            again, more = stock.flex_attention(out, key, value, lambda s, b, h, q, k: s + table[h, ids[q]], None,
                                               return_aux=stock.AuxRequest(lse=True))
            return again + 1, more.lse

        def own_by_arguments(query, key, value):
            return stock.flex_attention(query, key, value, alibi, kernel_options={"BLOCK_M": 16}) * 2

        def own_by_operator(query, key, value):
            return stock.flex_attention(query, key, value, lambda s, b, h, q, k: s + torch.erfinv(0.1 * h), mask) * 2

        layer, given = Layer(), (*inputs(), torch.arange(ROWS) // 20)
        three = [x.detach() for x in given[:3]]
        stocks = [function(*three) for function in (own_by_arguments, own_by_operator)]
        clattn.torch.enable(flex=True)
        try:
            expected = self.results(served, given, [layer.table])
            counted = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
            clattn.torch.report(clear=True)
            self.assert_same(self.results(torch.compile(served, backend=counted), given, [layer.table]), expected)
            self.assertEqual(counted.frame_count, 1)
            self.assertEqual(clattn.torch.report()["served"], {"flex_attention": 2, "flex_attention, backward": 2})
            for function, own in zip((own_by_arguments, own_by_operator), stocks):
                counted.frame_count = 0
                found = torch.compile(function, backend=counted)(*three)
                self.assertLessEqual((found - own).abs().max().item(), 1e-6)
                self.assertEqual(counted.frame_count, 1)
            self.assertRegex(*[*clattn.torch.report()["declined"]], "erfinv")
        finally:
            clattn.torch.disable()

    def test_another_dynamo(self):
        """Where PyTorch is older than those that were tried, the graph breaks."""
        with unittest.mock.patch.object(torch, "__version__", "2.14.1"):
            self.assertFalse(_torch_flex_graph._tell_dynamo())
        given = [x.detach() for x in inputs()]
        with unittest.mock.patch.object(_torch_flex, "is_known_to_dynamo", False):
            compiled = torch.compile(lambda *x: clattn.torch.flex_attention(*x, alibi) + 1, backend="eager")
            self.assertTrue(torch.equal(compiled(*given), clattn.torch.flex_attention(*given, alibi) + 1))

    def test_operator(self):
        """By PyTorch's own checks of operators: what it says of its results, aliases, gradients in graphs."""
        every = [torch.fx.symbolic_trace(lambda s, b, h, i, j, table: s + table[h, (i - j).clamp(0, last)])
                 for last in (39, 40)]
        other, known = [_torch_flex_graph._known_as(_torch_flex_graph._Functions(
            {"clattn_score": _torch_flex_graph._Function(x, ((True, 0),))}, False)) for x in every]
        self.assertNotEqual(other, known)
        table = normal(HEADS, 41).requires_grad_()
        torch.library.opcheck(_torch_flex_graph._operator, (*inputs(), [table], [], [], [], known, None))

    @unittest.skipUnless(IS_LONG, "CLATTN_TEST_LONG is not set")
    def test_what_a_mask_captures_learns_nothing(self):
        edge = torch.tensor(3.5, requires_grad=True)

        def function(query, key, value, edge):
            mask = stock.create_block_mask(lambda b, h, q, k: k < q + edge, None, None, ROWS, ROWS, device="cpu")
            return clattn.torch.flex_attention(query, key, value, None, mask)
        with self.assertRaisesRegex(Exception, "no gradients of what mask_mod captures"):
            torch.compile(function, backend="aot_eager")(*inputs(), edge)

    def test_checkpoints_and_hooks_of_saved_tensors(self):
        layer = Layer()
        given = *inputs(), torch.arange(ROWS) // 20
        expected = self.results(layer, given, [layer.table])
        for function in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True))[:2 if IS_LONG else 1]:
            self.assert_same(self.results(lambda *x: checkpoint(function, *x, use_reentrant=False), given,
                                          [layer.table]), expected)
            packed = []

            def pack(tensor):
                packed.append(tensor.detach().clone())
                return len(packed) - 1
            with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
                self.assert_same(self.results(function, given, [layer.table]), expected)
            self.assertGreater(len(packed), 4)
        out, _ = checkpoint(layer, *given, use_reentrant=True)
        out.square().sum().backward()
        self.assertGreater(layer.table.grad.abs().max().item(), 0)

    def test_autocast(self):
        """Query, key and value are of its type, as in PyTorch's own; the text is what it is elsewhere."""
        layer = Layer()
        given = *inputs(), torch.arange(ROWS) // 20
        low = [x.detach().bfloat16() for x in given[:3]]
        with torch.no_grad():
            expected = layer(*low, given[3])
            with torch.autocast("cpu", dtype=torch.bfloat16):
                self.assert_same(layer(*given), expected)
                if IS_LONG:
                    self.assert_same(torch.compile(layer, backend="aot_eager", fullgraph=True)(*given), expected)
                three = [x.detach() for x in given[:3]]
                self.assertEqual(stock.flex_attention(*three, alibi).dtype, torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = self.results(layer, given, [layer.table])
            with self.assertRaisesRegex(clattn.InvalidArgument, "query: type int32"):
                clattn.torch.flex_attention(*(x.int() for x in given[:3]))
        self.assertEqual([x.dtype for x in found[2:]], [torch.float32] * 4)

    def test_autocast_is_not_of_the_text(self):
        """Products of what a function captures, and gradients of that, are what they are outside of autocast."""
        table, turn = normal(HEADS, 41, seed=9).requires_grad_(), normal(41, 41, seed=3)

        def function(query, key, value):
            return clattn.torch.flex_attention(query, key, value, lambda s, b, h, q, k: torch.tanh(
                s * (table @ turn)[h, (q - k).clamp(0, 40)]), return_lse=True)
        expected = self.results(function, inputs(dtype=torch.bfloat16), [table])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = self.results(function, inputs(), [table])
        self.assert_same([*found[:2], found[-1]], [*expected[:2], expected[-1]])

    def test_second_derivatives_are_refused(self):
        three = inputs()
        compiled = torch.compile(clattn.torch.flex_attention, backend="eager", fullgraph=True)
        for function in (clattn.torch.flex_attention, compiled)[:2 if IS_LONG else 1]:
            for loss in (lambda out: out.square().sum(), torch.sum):
                (grad,) = torch.autograd.grad(loss(function(*three, alibi)), three[0], create_graph=True)
                self.assertTrue(grad.requires_grad)
                with self.assertRaisesRegex(RuntimeError, "second derivatives|no autograd formula"):
                    grad.square().sum().backward()


if __name__ == "__main__":
    unittest.main()
