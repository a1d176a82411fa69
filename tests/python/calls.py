"""Counts calls of PyTorch's kernel of attention on the CPU, by the names that clattn.torch.report() has for them."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import clattn.torch


class Calls(TorchDispatchMode):
    """`served` counts them while it is entered, whoever computes them."""

    def __init__(self):
        super().__init__()
        self.served = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for name, kind in ((clattn._torch_sdpa._FORWARD, "forward"), (clattn._torch_sdpa._BACKWARD, "backward")):
            if function.overloadpacket is getattr(torch.ops.aten, name):
                self.served[kind] = self.served.get(kind, 0) + 1
        return function(*args, **(kwargs or {}))
