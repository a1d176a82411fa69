"""Attention by PyTorch's own operators, for what the library does not compute: derivatives in forward mode, and second
ones. Slow, and of memory that grows with rows times keys."""
from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor


def _offset(given: Any, said: Any) -> Tensor:
    """Where row 0 stands: [batch or 1, 1, 1, 1]."""
    if given.offsets is not None:
        return given.offsets.long()[:, None, None, None]  # type: ignore[no-any-return]
    if (said.causal or said.alignment) != "bottom-right":
        return torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    lengths = torch.full((1,), given.key.shape[2]) if given.key_lengths is None else given.key_lengths.long()
    return (lengths - given.query.shape[2])[:, None, None, None]  # type: ignore[no-any-return]


def _is_seen(given: Any, said: Any, distance: Tensor) -> Tensor:
    """Which keys each row sees; `distance`: how far before the row the key stands."""
    keys = torch.arange(given.key.shape[2])
    seen = torch.ones_like(distance, dtype=torch.bool)
    if said.window_left >= 0:
        seen = seen & ((distance <= said.window_left) | (keys < said.always_visible_keys))
    if said.window_right >= 0:
        seen = seen & ((distance >= -said.window_right) | (keys < said.always_visible_keys))
    if said.causal:
        seen = seen & (distance >= 0)
    if given.key_lengths is not None:
        seen = seen & (keys < given.key_lengths[:, None, None, None])
    if given.row_low is not None:
        seen = seen & (keys >= given.row_low[..., None]) & (keys < given.row_high[..., None])
    return seen if given.mask is None else seen & given.mask.bool()


def _dense(given: Any, said: Any) -> Tuple[Tensor, Tensor]:
    query, key, value = given[:3]
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    group = query.shape[1] // key.shape[1] if key.shape[1] else 1
    q, k, v = (x.to(kind) for x in (query, key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)))
    scores = (query.shape[3]**-0.5 if given.scale is None else given.scale) * (q @ k.mT)
    if said.softcap:
        scores = said.softcap * torch.tanh(scores / said.softcap)
    if given.bias is not None:
        scores = scores + given.bias.to(kind)
    rows, keys = (torch.arange(count) for count in scores.shape[2:])
    distance = rows[:, None] + _offset(given, said) - keys[None, :]
    if given.slopes is not None:
        scores = scores - given.slopes.to(kind)[..., None, None] * distance.abs()
    scores = scores.masked_fill(~_is_seen(given, said, distance), float("-inf"))
    every: List[Tensor] = [scores]
    if given.sinks is not None:
        every.append(given.sinks.to(kind)[..., None, None].expand(*scores.shape[:3], 1))
    logits = torch.cat(every, -1)
    top = logits.detach().amax(-1, keepdim=True) if logits.shape[-1] else logits.new_zeros(*logits.shape[:3], 1)
    top = top.masked_fill(top == float("-inf"), 0.0)
    total = torch.exp(logits - top).sum(-1, keepdim=True)
    is_empty = total == 0
    weights = torch.exp(scores - top) / total.masked_fill(is_empty, 1.0)
    lse = (top + total.masked_fill(is_empty, 1.0).log()).masked_fill(is_empty, float("-inf"))
    return (weights @ v).to(query.dtype), lse.squeeze(-1).float()


def _sequence(given: Any, i: int, count: int, rows: slice, keys: slice) -> Any:
    """A packed sequence alone."""
    def of_batch(x: Optional[Tensor], axes: int) -> Optional[Tensor]:
        return x if x is None or x.dim() < axes or x.shape[0] != count else x[i:i + 1]

    def of_logits(x: Optional[Tensor]) -> Optional[Tensor]:
        x = of_batch(x, 4)
        if x is None:
            return None
        x = x if x.dim() < 2 or x.shape[-2] == 1 else x[..., :rows.stop - rows.start, :]
        return x if x.dim() < 1 or x.shape[-1] == 1 else x[..., :keys.stop - keys.start]

    def of_rows(x: Optional[Tensor]) -> Optional[Tensor]:
        return x if x is None or x.dim() < 1 or x.shape[-1] == 1 else x[..., rows]

    return given._replace(
        query=given.query[:, :, rows], key=given.key[:, :, keys], value=given.value[:, :, keys], cu_query=None,
        cu_key=None, mask=of_logits(given.mask), bias=of_logits(given.bias), slopes=of_batch(given.slopes, 2),
        key_lengths=of_batch(given.key_lengths, 1), offsets=of_batch(given.offsets, 1), row_low=of_rows(given.row_low),
        row_high=of_rows(given.row_high))


def formula(given: Any, said: Any) -> Tuple[Tensor, Tensor]:
    """(out, lse) of clattn.torch.attention, of its operator's Given and Said, without pages, codes and dropout."""
    if given.cu_query is None:
        return _dense(given, said)
    rows = given.cu_query.tolist()
    keys = rows if given.cu_key is None else given.cu_key.tolist()
    parts = [_dense(_sequence(given, i, len(rows) - 1, slice(rows[i], rows[i + 1]), slice(keys[i], keys[i + 1])), said)
             for i in range(len(rows) - 1)]
    behind = given.query.shape[2] - rows[-1]  # rows of no sequence
    out = given.query.new_zeros(*given.query.shape[:2], behind, given.value.shape[3])
    lse = torch.full((*given.query.shape[:2], behind), float("-inf"))
    return torch.cat([*(x for x, _ in parts), out], 2), torch.cat([*(x for _, x in parts), lse], 2)
