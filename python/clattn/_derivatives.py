"""What would be lost in silence: derivatives that arrays of PyTorch ask for, where a call has none."""
import sys
from typing import Any

from ._errors import InvalidArgument, Unsupported

_WITH_GRADIENTS = ("attention", "rotary")  # functions that clattn.torch has too


def refuse_gradients(function: str, **arrays: Any) -> None:
    """Raises where a result of the function without gradients would surprise."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for name, array in arrays.items():
        if getattr(array, "requires_grad", False) and torch.is_grad_enabled():
            other = f"call clattn.torch.{function}, or this" if function in _WITH_GRADIENTS else "call this"
            raise InvalidArgument(f"{name}: requires a gradient, which clattn.{function} has not; {other} under "
                                  f"torch.no_grad(), or give {name}.detach()")
    refuse_tangents(**arrays)


def refuse_tangents(**arrays: Any) -> None:
    """Raises where a tensor has one: derivatives in forward mode, of which no call knows."""
    torch = sys.modules.get("torch")
    forward_ad = sys.modules.get("torch.autograd.forward_ad")
    if torch is None or forward_ad is None or forward_ad._current_level < 0:
        return
    for name, array in arrays.items():
        if isinstance(array, torch.Tensor) and forward_ad.unpack_dual(array).tangent is not None:
            raise Unsupported(f"{name}: has a tangent, and attention has no derivatives in forward mode here; use "
                              "backward() and clattn.torch.attention")


def has_tangent(*arrays: Any) -> bool:
    """Whether one is asked for its derivatives in forward mode."""
    torch, forward_ad = sys.modules.get("torch"), sys.modules.get("torch.autograd.forward_ad")
    if torch is None or forward_ad is None or forward_ad._current_level < 0:
        return False
    return any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in arrays)


def is_written(array: Any) -> None:
    """Tells PyTorch's autograd that a call has written to a tensor, which a backward pass may have kept."""
    torch = sys.modules.get("torch")
    if torch and isinstance(array, torch.Tensor) and not array.is_inference():
        torch.autograd.graph.increment_version(array)
