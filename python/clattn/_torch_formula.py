"""Attention by PyTorch's own operators, for what the library does not compute: derivatives in forward mode, and second
ones. Slow, and of memory that grows with rows times keys."""
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor


def _is_seen(scores: Tensor, offset: Tensor, said: Any, mask: Optional[Tensor], key_lengths: Optional[Tensor]) -> Tensor:
    """Which keys each row sees, and where it stands; offset: [batch or 1, 1, 1, 1]."""
    causal, _, left, right = said[:4]
    rows, keys = (torch.arange(count, device=scores.device) for count in scores.shape[2:])
    distance = rows[:, None] + offset - keys[None, :]  # how far before the row the key stands
    seen = torch.ones_like(distance, dtype=torch.bool)
    if causal:
        seen = seen & (distance >= 0)
    if left >= 0:
        seen = seen & (distance <= left)
    if right >= 0:
        seen = seen & (distance >= -right)
    if key_lengths is not None:
        seen = seen & (keys < key_lengths[:, None, None, None])
    return seen if mask is None else seen & mask.bool()


def formula(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
            slopes: Optional[Tensor], sinks: Optional[Tensor], key_lengths: Optional[Tensor], scale: Any,
            said: Sequence[Any]) -> Tuple[Tensor, Tensor]:
    """(out, lse) of clattn.torch.attention; `said`: causal, alignment, window, softcap."""
    causal, alignment, _, _, softcap = said[:5]
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    group = query.shape[1] // key.shape[1] if key.shape[1] else 1
    q, k, v = (x.to(kind) for x in (query, key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)))
    scores = (query.shape[3]**-0.5 if scale is None else scale) * (q @ k.mT)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.to(kind)
    offset = torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    if (causal or alignment) == "bottom-right":
        lengths = torch.full((1,), key.shape[2]) if key_lengths is None else key_lengths.long()
        offset = (lengths - query.shape[2])[:, None, None, None]
    if slopes is not None:
        rows, keys = (torch.arange(count) for count in scores.shape[2:])
        distance = (rows[:, None] + offset - keys[None, :]).abs()
        scores = scores - slopes.to(kind).reshape(-1 if slopes.dim() > 1 else 1, query.shape[1], 1, 1) * distance
    seen = _is_seen(scores, offset, said, mask, key_lengths)
    scores = scores.masked_fill(~seen, float("-inf"))
    every: List[Tensor] = [scores]
    if sinks is not None:
        every.append(sinks.to(kind).reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1))
    logits = torch.cat(every, -1)
    top = logits.detach().amax(-1, keepdim=True) if logits.shape[-1] else logits.new_zeros(*logits.shape[:3], 1)
    top = top.masked_fill(top == float("-inf"), 0.0)
    total = torch.exp(logits - top).sum(-1, keepdim=True)
    is_empty = total == 0
    weights = torch.exp(scores - top) / total.masked_fill(is_empty, 1.0)
    lse = (top + total.masked_fill(is_empty, 1.0).log()).masked_fill(is_empty, float("-inf"))
    return (weights @ v).to(query.dtype), lse.squeeze(-1).float()
