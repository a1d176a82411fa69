"""A published model, SmolLM2-135M-Instruct, under PyTorch's context_parallel: a forward pass and one step of training
on two and three ranks that have a part of the tokens each, against one process that has all. Every attention is
clattn's. CLATTN_SMOLLM names the model's file. Ranks are forks of this process, which reads it."""
import importlib.util
import os
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.nn.functional as F

import clattn.torch

SMOLLM = os.environ.get("CLATTN_SMOLLM")
LAYERS, TOKENS = 30, 48  # of each rank


def step(model, tokens, targets, places):
    """(logits, gradients) of the mean loss over all tokens of this call."""
    from transformers import DynamicCache
    model.zero_grad()
    # A cache, so that transformers takes the places for what they are, and no mask of packed sequences.
    logits = model(input_ids=tokens, position_ids=places, past_key_values=DynamicCache(), use_cache=True).logits
    F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").backward()
    return logits.detach(), [parameter.grad for parameter in model.parameters()]


def given(ranks):
    numbers = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 49000, (1, ranks * TOKENS + 1), generator=numbers)
    return tokens[:, :-1].clone(), tokens[:, 1:].clone(), torch.arange(ranks * TOKENS)[None]


def be_rank(model, rank, ranks, folder, balanced):
    import torch.distributed.tensor.experimental._context_parallel._attention as ring
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    clattn.torch.enable()
    mesh = init_device_mesh("cpu", (ranks,))
    ring._cp_options.enable_load_balance = balanced
    tokens, targets, places = given(ranks)
    with context_parallel(mesh, buffers=[tokens, targets, places], buffer_seq_dims=[1, 1, 1]):
        logits, gradients = step(model, tokens, targets, places)
    logits, = context_parallel_unshard(mesh, [logits], [1])
    for gradient in gradients:
        dist.all_reduce(gradient)
    report = clattn.torch.report()
    if rank == 0:
        torch.save((logits, gradients, report), f"{folder}/found")


@unittest.skipUnless(os.environ.get("CLATTN_TEST_LONG"), "40 seconds of processors: ./check --long")
@unittest.skipUnless(SMOLLM and importlib.util.find_spec("gguf") and importlib.util.find_spec("accelerate"),
                     "no model SmolLM2-135M-Instruct, or no gguf and accelerate")
@unittest.skipUnless(hasattr(os, "fork") and dist.is_available() and hasattr(torch.library, "get_kernel"),
                     "no fork, no torch.distributed, or no torch.library.get_kernel")
class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from transformers import AutoModelForCausalLM
        torch.set_num_threads(1)  # forks have no other threads
        folder, name = os.path.split(SMOLLM)
        cls.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                                         attn_implementation="sdpa")

    def near(self, found, own, right):
        """As near to what is right, by float64, as one process with PyTorch's own attention: all errors together. None
        is wrong by itself, which the sum would hide."""
        def sizes(tensors):
            return torch.stack([x.double().norm() for x in tensors])
        errors, of_one = (sizes([x - y for x, y in zip(each, right)]) for each in (found, own))
        self.assertLess(errors.norm(), 1.5 * of_one.norm())
        self.assertLess((errors / sizes(right)).max(), 1e-4)

    def run_ranks(self, ranks, balanced):
        with tempfile.TemporaryDirectory() as folder:
            processes = []
            for rank in range(ranks):
                process = os.fork()
                if process == 0:
                    status = 1
                    try:
                        be_rank(self.model, rank, ranks, folder, balanced)
                        status = 0
                    finally:
                        os._exit(status)
                processes.append(process)
            ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
            self.assertEqual(ends, [0] * ranks)
            logits, gradients, report = torch.load(f"{folder}/found")
        own, own_gradients = step(self.model, *given(ranks))
        self.model.to(torch.float64)
        right, right_gradients = step(self.model, *given(ranks))
        self.model.to(torch.float32)  # exactly what it was
        self.near([logits], [own], [right])
        self.near(gradients, own_gradients, right_gradients)
        self.assertEqual(report["declined"], {})
        self.assertGreaterEqual(report["served"]["forward"], LAYERS)
        self.assertEqual(report["served"]["backward"], report["served"]["forward"])

    def test_two(self):
        self.run_ranks(2, balanced=True)

    def test_three(self):
        self.run_ranks(3, balanced=False)


if __name__ == "__main__":
    unittest.main()
