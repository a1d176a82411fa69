"""flex_attention as PyTorch's autograd has it, where no graph of torch.compile is made."""
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ._derivatives import has_tangent
from ._errors import Unsupported
from ._flex_call import MASK, MASKS_LEARN_NOTHING, SCORE, Asked, Loss, Ready, Text, compute, gradients, prepare
from ._flex_captured import Captured, captured_of
from ._torch_calls import last_derivatives, tell_of_spinning_threads, views


class _Differentiable(torch.autograd.Function):
    """(out, lse), with gradients of query, key, value and what score_mod captures, by the text that has the score's
    slope too."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ready: Ready, captured: Optional[Captured],
                *learned: Tensor) -> Tuple[Tensor, Tensor]:
        out, lse = compute(query, key, value, ready, True)
        ctx.save_for_backward(query, key, value, out, lse, ready.blocks, *learned, *ready.tensors)
        ctx.ready, ctx.captured, ctx.learned = ready._replace(tensors=[], blocks=None), captured, len(learned)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Optional[Tensor], grad_lse: Optional[Tensor]) -> Any:
        query, key, value, out, lse, blocks, *others = ctx.saved_tensors
        if grad_out is None and grad_lse is None:
            return (None,) * (5 + ctx.learned)
        ready = ctx.ready._replace(tensors=others[ctx.learned:], blocks=blocks)
        with torch.no_grad():
            found = gradients(query, key, value, ready, Loss(out, lse, grad_out, grad_lse), ctx.captured,
                              others[:ctx.learned])
        last = last_derivatives("flex_attention", found, query, key, value, grad_out, grad_lse, *others[:ctx.learned])
        return (*last[:3], None, None, *last[3:])


def _wants_gradient(tensor: Tensor) -> bool:
    return tensor.requires_grad and torch.is_grad_enabled()


def _learned(text: Text, slots: Dict[str, List[Tensor]],
             every: List[Tensor]) -> Tuple[Optional[Captured], List[Tensor]]:
    """What score_mod captures, and of which of its tensors a gradient is wanted. Raises where there are no such
    derivatives: of what mask_mod captures, and in forward mode."""
    if has_tangent(*every, *[x for tensors in slots.values() for x in tensors]):
        raise Unsupported("flex_attention: has no derivatives in forward mode; give tensors without tangents")
    found = {name: captured_of(traced, slots[name], _wants_gradient) for name, traced in text.traced.items()}
    if MASK in found and found[MASK][1]:
        raise Unsupported(MASKS_LEARN_NOTHING)
    return found.get(SCORE, (None, []))


@torch.compiler.disable  # type: ignore[untyped-decorator]
def attend(query: Tensor, key: Tensor, value: Tensor, asked: Asked, has_lse: bool) -> List[Tensor]:
    """[out], or [out, lse]."""
    tell_of_spinning_threads()
    views(query, key, value)
    has_gradients = any(map(_wants_gradient, (query, key, value)))
    ready, text, slots = prepare(query, key, asked, has_gradients)
    captured, learned = _learned(text, slots, [query, key, value])
    if learned and not has_gradients:
        ready = prepare(query, key, asked, True)[0]
    if learned or has_gradients:
        return list(_Differentiable.apply(query, key, value, ready, captured, *learned))
    return compute(query, key, value, ready, has_lse)
