"""Whether PyTorch's dispatcher has anything to do with a call."""
from typing import Optional, Sequence

import torch
import torch.autograd.forward_ad
from torch import Tensor


def _key_set(*names: str) -> Optional[int]:
    """PyTorch's number for a set of its dispatcher's keys; None where this PyTorch does not tell."""
    try:
        found = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
        for name in names[1:]:
            found = found | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
        return int(found.raw_repr())
    except AttributeError:
        return None


# What a tensor on the CPU has, and what a thread in none of PyTorch's modes has; then both in inference_mode().
_PLAIN = _key_set("CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU"), _key_set("CPU", "AutocastCPU")
_NO_MODE = _key_set("BackendSelect", "ADInplaceOrView"), _key_set("BackendSelect")
_TENSORS = (Tensor, torch.nn.Parameter)


def is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether PyTorch's dispatcher would do nothing with an operator on them but call its kernel for the CPU, so that
    it need not be asked: none is of another class or place, no gradient is wanted, and nothing watches or
    transforms."""
    if torch.compiler.is_compiling() or None in _PLAIN or torch._C._len_torch_function_stack() or \
            torch._C._autograd._profiler_enabled():
        return False
    if torch._C._dispatch_tls_local_include_set().raw_repr() not in _NO_MODE or \
            torch.autograd.forward_ad._current_level >= 0:
        return False
    wants_gradients = torch.is_grad_enabled()
    for x in tensors:
        if type(x) not in _TENSORS or torch._C._dispatch_keys(x).raw_repr() not in _PLAIN or \
                (wants_gradients and x.requires_grad):
            return False
    return True
