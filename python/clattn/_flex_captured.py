"""Gradients of what a score_mod captures: PyTorch's derivative of the function, by the library's of each logit."""
import contextlib
from typing import Any, Callable, Iterator, List, Optional, Sequence

import torch
from torch import Tensor

from ._flex_trace import Watch


@contextlib.contextmanager
def _in_a_fixed_order() -> Iterator[None]:
    """Elements that many pairs load are added up alike in each call, as all that the library sums."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _scores_of_head(score_mod: Callable[..., Any], scores: Tensor, b: int, h: int) -> Tensor:
    """What score_mod makes of a head's scores [rows, keys]."""
    rows, keys = (torch.arange(n, dtype=torch.int32) for n in scores.shape)
    batch, head = (torch.tensor(x, dtype=torch.int32) for x in (b, h))

    def of_pair(score: Tensor, i: Tensor, j: Tensor) -> Any:
        return score_mod(score, batch, head, i, j)
    of_row = torch.vmap(of_pair, in_dims=(0, None, 0))
    found: Tensor = torch.vmap(of_row, in_dims=(0, 0, None))(scores, rows, keys)
    return found.to(scores.dtype)


def gradients_of_captured(score_mod: Callable[..., Any], captured: Sequence[Tensor], query: Tensor, key: Tensor,
                          scale: Optional[float], dlogits: Tensor) -> List[Tensor]:
    """A loss's gradients for the tensors captured, of `dlogits` [batch, heads, rows, keys], its derivatives for what
    score_mod returned. A head at a time, so that beside dlogits one head's pairs are in memory."""
    real = dlogits.dtype
    group = query.shape[1] // key.shape[1]
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    totals = [torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, real)) for x in captured]
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            scores = query[b, h].to(real) @ key[b, h // group].to(real).T * factor
            with torch.enable_grad(), Watch(), _in_a_fixed_order():
                found = _scores_of_head(score_mod, scores, b, h)
                parts = torch.autograd.grad(found, captured, dlogits[b, h], allow_unused=True) \
                    if found.requires_grad else ()
            for total, part in zip(totals, parts):
                if part is not None:
                    total += part
    return [total.to(x.dtype) for total, x in zip(totals, captured)]
