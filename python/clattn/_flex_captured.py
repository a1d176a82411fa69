"""Gradients of what a score_mod captures: PyTorch's derivative of its graph, by the library's of each logit."""
import contextlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._flex_trace import Traced


class Captured(NamedTuple):
    """A score_mod as a call found it: its graph, since what the function itself reads may be another tensor by the time
    of gradients; by nodes, which of the tensors to learn each reads, and what the others read."""

    traced: Traced
    places: Dict[Any, int]
    others: Dict[Any, Tensor]


def captured_of(traced: Traced, slots: List[Tensor],
                is_wanted: Callable[[Tensor], bool]) -> Tuple[Captured, List[Tensor]]:
    """..., and the tensors of which a gradient is wanted."""
    learned: List[Tensor] = []
    found = Captured(traced, {}, {})
    for node, tensor in traced.captured(slots).items():
        if is_wanted(tensor):
            place = next((n for n, known in enumerate(learned) if known is tensor), len(learned))
            learned[place:] = learned[place:] or [tensor]
            found.places[node] = place
        else:
            found.others[node] = tensor.detach()
    return found, learned


@contextlib.contextmanager
def _in_a_fixed_order() -> Iterator[None]:
    """Elements that many pairs load are added up alike in each call, as all that the library sums."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextlib.contextmanager
def _recorded() -> Iterator[None]:
    """What is computed has gradients, within an operator's kernel too, where PyTorch leaves autograd out."""
    autograd = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradFunctionality)
    left_out = torch._C._dispatch_tls_local_exclude_set() - autograd
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), left_out), torch.enable_grad():
        yield


def _scores_of_head(traced: Traced, captured: Dict[Any, Tensor], scores: Tensor, b: int, h: int) -> Tensor:
    """What score_mod makes of a head's scores [rows, keys]."""
    rows, keys = (torch.arange(n, dtype=torch.int32) for n in scores.shape)
    batch, head = (torch.tensor(x, dtype=torch.int32) for x in (b, h))

    def of_pair(score: Tensor, i: Tensor, j: Tensor) -> Any:
        return traced.result((score, batch, head, i, j), captured)
    of_row = torch.vmap(of_pair, in_dims=(0, None, 0))
    found: Tensor = torch.vmap(of_row, in_dims=(0, 0, None))(scores, rows, keys)
    return found.to(scores.dtype)


def gradients_of_captured(of: Captured, learned: Sequence[Tensor], query: Tensor, key: Tensor, scale: Optional[float],
                          dlogits: Tensor) -> List[Tensor]:
    """A loss's gradients for the tensors to learn, of `dlogits` [batch, heads, rows, keys], its derivatives for what
    score_mod returned. A head at a time, so that beside dlogits one head's pairs are in memory."""
    real = dlogits.dtype
    group = query.shape[1] // key.shape[1]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    # leaves: one that is made of another has its own gradient, which is not the other's too
    leaves = [x.detach().requires_grad_() for x in learned]
    captured = {**of.others, **{node: leaves[place] for node, place in of.places.items()}}
    totals = [torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, real)) for x in leaves]
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            with _recorded(), _in_a_fixed_order(), torch.autocast("cpu", enabled=False):
                scores = query[b, h].detach().to(real) @ key[b, h // group].detach().to(real).T * factor
                found = _scores_of_head(of.traced, captured, scores, b, h)
                parts = torch.autograd.grad(found, leaves, dlogits[b, h], allow_unused=True) \
                    if found.requires_grad else ()
            for total, part in zip(totals, parts):
                if part is not None:
                    total += part
    return [total.to(x.dtype) for total, x in zip(totals, leaves)]
