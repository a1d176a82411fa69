"""PyTorch's context_parallel on the CPU, and clattn.torch.ring_attention: two and three processes that have a part of
the rows each, against one that has all. `test_ranks.py rank` is one of the processes, which torch.distributed.run
starts."""
import os
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.nn.functional as F

import clattn
import clattn.torch
from page_programs import check_ranks, program_of

if not (dist.is_available() and hasattr(torch.library, "get_kernel")):
    raise unittest.SkipTest(f"PyTorch {torch.__version__}: has no torch.distributed, or no torch.library.get_kernel")

ROWS = 24  # of each rank
# What is near: roundings of the parts, of their merging, and of sums over ranks; of the largest value.
NEAR = {torch.float32: 4e-6, torch.bfloat16: 2e-2}


def ring_options():
    import torch.distributed.tensor.experimental._context_parallel._attention as ring
    return ring


class Rank(unittest.TestCase):
    """Every process runs all of these, in one order: they talk to each other."""

    @classmethod
    def setUpClass(cls):
        dist.init_process_group("gloo")
        cls.ranks = dist.get_world_size()
        clattn.torch.enable()  # before the ring is imported
        from torch.distributed.device_mesh import init_device_mesh
        cls.mesh = init_device_mesh("cpu", (cls.ranks,))

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def near(self, parts, wholes, dtype=torch.float32):
        for number, (part, whole) in enumerate(zip(parts, wholes)):
            error = (part.double() - whole.double()).abs().max() / whole.double().abs().max().clamp(min=1e-3)
            self.assertLess(error.item(), NEAR[dtype], f"number {number}")

    def check(self, causal, balanced, kv_heads=4, dtype=torch.float32, rotation="allgather", scale=None):
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._attention import context_parallel_unshard
        ring = ring_options()
        ring.set_rotate_method(rotation)
        ring._cp_options.enable_load_balance = balanced
        torch.manual_seed(1)
        shapes = [(2, heads, ROWS * self.ranks, 16) for heads in (4, kv_heads, kv_heads, 4)]
        query, key, value, dout = given = [torch.randn(shape).to(dtype) for shape in shapes]
        grouped = {"enable_gqa": True} if kv_heads != 4 else {}
        whole = [x.clone().requires_grad_() for x in given[:3]]
        wanted = F.scaled_dot_product_attention(*whole, is_causal=causal, scale=scale, **grouped)
        wanted.backward(dout)
        clattn.torch.report(clear=True)
        with context_parallel(self.mesh, buffers=given, buffer_seq_dims=[2] * 4):
            self.assertEqual(query.shape[2], ROWS)
            parts = [x.clone().requires_grad_() for x in given[:3]]
            out = F.scaled_dot_product_attention(*parts, is_causal=causal, scale=scale, **grouped)
            out.backward(dout)
            found = [out.detach(), *[x.grad for x in parts]]
            if balanced:
                found = context_parallel_unshard(self.mesh, found, [2] * 4)
        wholes = [wanted.detach(), *[x.grad for x in whole]]
        if not balanced:
            wholes = [x.chunk(self.ranks, 2)[dist.get_rank()] for x in wholes]
        self.near(found, wholes, dtype)
        calls = clattn.torch.report(clear=True)
        self.assertEqual(calls["declined"], {})
        steps = self.ranks if balanced or not causal else dist.get_rank() + 1
        self.assertEqual(calls["served"], {"forward": steps, "backward": steps})

    def test_1_causal_and_balanced(self):
        self.check(causal=True, balanced=True)

    def test_2_causal_in_order(self):
        self.check(causal=True, balanced=False)

    def test_3_not_causal(self):
        self.check(causal=False, balanced=False, scale=0.1)

    def test_4_grouped_heads_all_to_all(self):
        self.check(causal=True, balanced=True, kv_heads=2, rotation="alltoall")

    def test_5_bfloat16(self):
        self.check(causal=True, balanced=True, dtype=torch.bfloat16)

    def test_6_what_the_ring_cannot_take_is_named_at_once(self):
        from torch.distributed.tensor.experimental import context_parallel
        ring_options()._cp_options.enable_load_balance = False
        query = torch.randn(1, 2, 8 * self.ranks, 16)
        with context_parallel(self.mesh, buffers=[query], buffer_seq_dims=[2]):
            mask = torch.zeros(1, 1, 8, 8 * self.ranks)
            with self.assertRaisesRegex(NotImplementedError, "clattn: context_parallel on the CPU: a mask"):
                F.scaled_dot_product_attention(query, query, query, attn_mask=mask)
        reasons = clattn.torch.report(clear=True)["declined"]
        self.assertEqual([reason.split(":")[:2] for reason in reasons], [["context_parallel", " a mask"]])

    def test_7_a_model_takes_a_step_of_training(self):
        try:
            from transformers import LlamaConfig, LlamaForCausalLM
        except ImportError:
            self.skipTest("no transformers")
        from torch.distributed.tensor.experimental import context_parallel
        ring_options()._cp_options.enable_load_balance = True
        torch.manual_seed(2)
        model = LlamaForCausalLM(LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
                                             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                                             attn_implementation="sdpa"))
        rows = ROWS * self.ranks
        tokens, positions = torch.randint(96, (2, rows)), torch.arange(rows).expand(2, rows).clone()
        targets = torch.roll(tokens, -1, 1)
        for layer in model.model.layers:  # the ring masks by itself, as accelerate has it
            layer.self_attn.register_forward_pre_hook(
                lambda module, args, kwargs: (args, {**kwargs, "attention_mask": None, "is_causal": True}),
                with_kwargs=True)

        def loss_of(tokens, positions, targets):
            logits = model(input_ids=tokens, position_ids=positions, use_cache=False).logits
            return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum") / (2 * rows)

        wanted = loss_of(tokens, positions, targets)
        wanted.backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        clattn.torch.report(clear=True)
        with context_parallel(self.mesh, buffers=[tokens, positions, targets], buffer_seq_dims=[1] * 3):
            loss = loss_of(tokens, positions, targets)
            loss.backward()
        calls = clattn.torch.report(clear=True)
        sums = [loss.detach(), *[p.grad for p in model.parameters()]]
        for x in sums:
            dist.all_reduce(x)
        self.near(sums, [wanted.detach(), *gradients])
        self.assertEqual((calls["declined"], calls["served"]),
                         ({}, {"forward": 3 * self.ranks, "backward": 3 * self.ranks}))

    def test_a_ring_has_no_second_derivatives(self):
        query = torch.randn(1, 1, ROWS, 16, requires_grad=True)
        out = clattn.torch.ring_attention(query, query.detach(), query.detach())
        (grad,) = torch.autograd.grad(out.sum(), query, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "ring_attention: has no second derivatives"):
            (grad.sum() + query.sum()).backward()

    def ring(self, layout="contiguous", kv_heads=2, dtype=torch.float32, rows=ROWS, keys=ROWS, near=None, **options):
        """ring_attention, forward and backward, against clattn.torch.attention of the whole."""
        ranks, learned = self.ranks, {name: options.pop(name) for name in ("slopes", "sinks") if name in options}
        torch.manual_seed(3)
        shapes = [(2, 4, rows * ranks, 16), (2, kv_heads, keys * ranks, 16), (2, kv_heads, keys * ranks, 24)]
        given = [torch.randn(shape).to(dtype) for shape in shapes]
        dout, dlse = torch.randn(*shapes[0][:3], 24).to(dtype), torch.randn(shapes[0][:3])

        def part(x):
            return clattn.torch.rows_of(x, layout=layout)

        def run(function, tensors, dout, dlse, **more):
            leaves = [x.clone().requires_grad_() for x in tensors]
            extra = {name: x.clone().requires_grad_() for name, x in learned.items()}
            out, lse = function(*leaves, **extra, **options, **more, return_lse=True)
            dlse = torch.where(lse.isinf(), 0.0, dlse)
            torch.autograd.backward([out, torch.where(lse.isinf(), 0.0, lse)], [dout, dlse])
            return [out.detach(), lse.detach(), *[x.grad for x in leaves]], [x.grad for x in extra.values()]

        wanted, shares = run(clattn.torch.attention, given, dout, dlse)
        found, own = run(clattn.torch.ring_attention, [part(x) for x in given], part(dout), part(dlse), layout=layout)
        wanted = [part(x) for x in wanted]
        self.assertTrue(torch.equal(found[1].isinf(), wanted[1].isinf()))
        for x in found, wanted:
            x[1] = torch.where(x[1].isinf(), 0.0, x[1])
        for x in own:
            dist.all_reduce(x)
        self.near(found + own, wanted + shares, dtype)

    def test_a_ring_of_every_layout(self):
        for layout in ("contiguous", "zigzag"):
            self.ring(layout)
            self.ring(layout, causal="bottom-right", scale=0.2)
            self.ring(layout, causal="top-left", dtype=torch.bfloat16)

    def test_b_ring_with_what_attention_has(self):
        heads = torch.arange(1.0, 5) / 8
        for layout in ("contiguous", "zigzag"):
            self.ring(layout, causal="bottom-right", window=(20, 0), softcap=4.0)
            self.ring(layout, alignment="top-left", window=(7, 30), always_visible_keys=5, keys=ROWS + 4)
            self.ring(layout, causal="bottom-right", slopes=heads, sinks=heads * 4 - 1, rows=6)
            self.ring(layout, causal="bottom-right", key_lengths=[3, ROWS + 1], sinks=heads)
            self.ring(layout, key_lengths=[0, 14 * self.ranks], keys=14)

    def test_c_dropout_is_that_of_the_whole(self):
        for layout in ("contiguous", "zigzag"):
            self.ring(layout, dropout=0.3, seed=11, causal="top-left")

    def test_d_keys_go_no_further_than_a_window(self):
        from clattn import _torch_ring
        rows = torch.randn(1, 1, 8, 16)
        sent, exchange = [], _torch_ring.Exchange
        _torch_ring.Exchange = lambda *arguments: sent.append(1) or exchange(*arguments)
        try:
            clattn.torch.ring_attention(rows, rows, rows, causal="top-left", window=3)
        finally:
            _torch_ring.Exchange = exchange
        self.assertEqual(len(sent), 1)

    def test_e_every_rank_raises_where_one_must(self):
        rank, rows = dist.get_rank(), torch.randn(1, 1, 8, 16)
        odd = rows[:, :, :7] if rank == 1 else rows
        with self.assertRaisesRegex(clattn.InvalidShape, "rank 1: its tensors or its options are not those of rank 0"):
            clattn.torch.ring_attention(odd, odd, odd)
        with self.assertRaisesRegex(clattn.InvalidShape, "rank 1: its tensors or its options"):
            clattn.torch.ring_attention(rows, rows, rows, scale=0.5 if rank == 1 else 0.25)
        with self.assertRaisesRegex(clattn.Error, "must be even" if rank == 1 else "rank 1: its call is wrong"):
            clattn.torch.ring_attention(odd, odd, odd, layout="zigzag")

    def test_f_a_group_of_some(self):
        group = dist.new_group([0, self.ranks - 1])
        if dist.get_rank() in (0, self.ranks - 1):
            torch.manual_seed(4)
            whole = torch.randn(1, 2, 20, 16)
            part = clattn.torch.rows_of(whole, group=group)
            found = clattn.torch.ring_attention(part, part, part, group=group, causal="top-left", dropout=0.2, seed=5)
            wanted = clattn.torch.attention(whole, whole, whole, causal="top-left", dropout=0.2, seed=5)
            self.near([found], [clattn.torch.rows_of(wanted, group=group)])

    def test_g_disabled_it_is_as_pytorch_has_it(self):
        ring = ring_options()
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
        self.assertIn(operator, ring.custom_ops)
        clattn.torch.disable()
        self.assertNotIn(operator, ring.custom_ops)
        clattn.torch.enable()  # the ring is there already
        self.assertIn(operator, ring.custom_ops)


class Ranks(unittest.TestCase):
    def run_ranks(self, count):
        """Each rank leaves a file that says what it ran: what ranks print arrives in any order, mixed."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                   str(count), os.path.abspath(__file__), "rank", folder],
                                  capture_output=True, text=True, timeout=3000,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-6000:])
            found = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found[name] = file.read()
        number = len(unittest.defaultTestLoader.getTestCaseNames(Rank))
        self.assertEqual(found, {f"rank-{rank}": f"{number} run, 0 skipped" for rank in range(count)})

    @unittest.skipUnless(os.environ.get("CLATTN_TEST_LONG"), "three ranks have what two have: ./check --long")
    def test_two(self):
        self.run_ranks(2)

    def test_three(self):
        self.run_ranks(3)

    def test_the_page_s_program(self):
        with program_of("ranks.md", 0) as path:
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                   "2", path],
                                  capture_output=True, text=True, timeout=3000,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"})
        check_ranks(self, done)

    def test_enable_does_not_import_the_ring(self):
        """It takes a second."""
        program = ("import sys, clattn.torch; clattn.torch.enable(); "
                   "assert not any('_context_parallel' in name for name in sys.modules); "
                   "clattn.torch.disable(); import torch.distributed.tensor.experimental._context_parallel._attention "
                   "as ring; assert not any('for_cpu' in str(operator) for operator in ring.custom_ops)")
        subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        ran = unittest.main(argv=sys.argv[:1], defaultTest="Rank", exit=False).result
        if not ran.wasSuccessful():
            sys.exit(1)
        with open(os.path.join(sys.argv[2], f"rank-{os.environ['RANK']}"), "w", encoding="utf-8") as file:
            file.write(f"{ran.testsRun} run, {len(ran.skipped)} skipped")
        sys.stderr.flush()
        os._exit(0)  # a rank that is in no group of some may abort at its end, in a thread of PyTorch's
    unittest.main(defaultTest="Ranks")
