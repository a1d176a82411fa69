"""The functions of flash_attn, on the CPU: for code that imports these names, with these arguments.

    from clattn.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

Tensors are [batch, rows, heads, columns], packed ones [rows of all sequences, heads, columns]. Causal masks, windows
and ALiBi count from the last row and the last key, as there. What differs from those, which are for CUDA:

    types           float32 and float64 too; any number of columns; values may have another number than keys
    dropout_p       drops by bits of clattn's own, seeded by PyTorch's generator
    deterministic   always so
    lse             of a row that sees no key it is -inf, of which clattn.merge knows; with ALiBi that of the formula
    S_dmask         the third result, by which flash_attn tests itself, is empty
"""
from typing import Any, Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor

from ._cache import append
from ._cache import rotary as _turned
from ._errors import InvalidArgument, InvalidShape
from .torch import attention

__all__ = ["flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache"]

Window = Tuple[int, int]
Results = Union[Tensor, Tuple[Tensor, ...]]


def _by_heads(name: str, rows: Tensor, axes: int = 4) -> Tensor:
    """A view [batch, heads, rows, columns] of rows as flash_attn has them; packed sequences are a batch of one."""
    if rows.dim() != axes:
        lead = "batch, rows" if axes == 4 else "rows of all sequences"
        raise InvalidShape(f"{name}: has shape {tuple(rows.shape)}; must be [{lead}, heads, columns]")
    return (rows if axes == 4 else rows.unsqueeze(0)).transpose(1, 2)


def _attend(query: Tensor, key: Tensor, value: Tensor, returns_lse: bool, dropout_p: float,
            softmax_scale: Optional[float], causal: bool, window_size: Window, softcap: float,
            alibi_slopes: Optional[Tensor], **sequences: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """(out, lse) [batch, heads, rows, ...] of tensors by heads, from what all functions here are given."""
    found: Any = attention(query, key, value, causal="bottom-right" if causal else None, alignment="bottom-right",
                           window=window_size, scale=softmax_scale, softcap=softcap, slopes=alibi_slopes,
                           dropout=dropout_p, return_lse=returns_lse, **sequences)
    return found if returns_lse else (found, None)


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                    return_attn_probs: bool = False) -> Results:
    """out [batch, rows, heads, columns]; with return_attn_probs (out, lse [batch, heads, rows], empty). Differentiable.

    q: [batch, rows, heads, columns]; k and v: [batch, keys, key heads, columns], with as many heads or fewer.
    alibi_slopes: [heads] or [batch, heads]. deterministic is taken, and always so.
    """
    out, lse = _attend(_by_heads("q", q), _by_heads("k", k), _by_heads("v", v), return_attn_probs, dropout_p,
                       softmax_scale, causal, window_size, softcap, alibi_slopes)
    out = out.transpose(1, 2)
    return out if lse is None else (out, lse, out.new_empty(0))


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *options: Any, **named: Any) -> Results:
    """flash_attn_func of keys and values that lie together: kv [batch, keys, 2, key heads, columns]."""
    k, v = _apart("kv", kv, 2, 5)
    return flash_attn_func(q, k, v, *options, **named)


def flash_attn_qkvpacked_func(qkv: Tensor, *options: Any, **named: Any) -> Results:
    """flash_attn_func of tensors that lie together: qkv [batch, rows, 3, heads, columns]."""
    q, k, v = _apart("qkv", qkv, 3, 5)
    return flash_attn_func(q, k, v, *options, **named)


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor,
                           max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None, causal: bool = False,
                           window_size: Window = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Optional[Tensor] = None, deterministic: bool = False,
                           return_attn_probs: bool = False, block_table: Optional[Tensor] = None) -> Results:
    """out [rows of all sequences, heads, columns]; with return_attn_probs (out, lse [heads, rows], empty).
    Differentiable, but not with keys in pages.

    cu_seqlens_q, cu_seqlens_k: where sequences begin, and the last one ends. block_table [batch, pages of a sequence]:
    k and v are pages [pages, rows of a page, key heads, columns], and cu_seqlens_k tells lengths alone.
    """
    _check_longest("q", cu_seqlens_q, max_seqlen_q)
    _check_longest("k", cu_seqlens_k, max_seqlen_k)
    if block_table is None:
        keys, said = 3, {"cu_key": cu_seqlens_k}
    else:
        keys, said = 4, {"page_table": block_table, "key_lengths": cu_seqlens_k.diff()}
    out, lse = _attend(_by_heads("q", q, 3), _by_heads("k", k, keys), _by_heads("v", v, keys), return_attn_probs,
                       dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
                       cu_query=cu_seqlens_q, **said)
    out = out.squeeze(0).transpose(0, 1)
    return out if lse is None else (out, lse.squeeze(0), out.new_empty(0))


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, *options: Any, **named: Any) -> Results:
    """flash_attn_varlen_func of keys and values that lie together: kv [keys of all, 2, key heads, columns]."""
    k, v = _apart("kv", kv, 2, 4)
    return flash_attn_varlen_func(q, k, v, *options, **named)


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, *options: Any,
                                     **named: Any) -> Results:
    """flash_attn_varlen_func of tensors that lie together: qkv [rows of all sequences, 3, heads, columns]."""
    q, k, v = _apart("qkv", qkv, 3, 4)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *options, **named)


def _apart(name: str, tensors: Tensor, count: int, axes: int) -> Tuple[Tensor, ...]:
    """The tensors that lie side by side along the axis before heads."""
    if tensors.dim() != axes or tensors.shape[-3] != count:
        raise InvalidShape(f"{name}: has shape {tuple(tensors.shape)}; must be of {axes} axes, "
                           f"[..., {count}, heads, columns]")
    return tensors.unbind(-3)


def _check_longest(of: str, seams: Tensor, most: int) -> None:
    """flash_attn computes no row beyond the maximum that it is told, and sees no key there."""
    longest = int(seams.diff().max()) if len(seams) > 1 else 0
    if longest > most:
        raise InvalidArgument(f"max_seqlen_{of} {most}: must be at least the longest sequence of cu_seqlens_{of}, "
                              f"{longest}")


# ---- decoding with a cache ----


def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None,
                            v: Optional[Tensor] = None, rotary_cos: Optional[Tensor] = None,
                            rotary_sin: Optional[Tensor] = None, cache_seqlens: Union[None, int, Tensor] = None,
                            cache_batch_idx: Optional[Tensor] = None, cache_leftpad: Optional[Tensor] = None,
                            block_table: Optional[Tensor] = None, softmax_scale: Optional[float] = None,
                            causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Optional[Tensor] = None,
                            num_splits: int = 0, return_softmax_lse: bool = False) -> Results:
    """out [batch, rows, heads, columns]; with return_softmax_lse (out, lse [batch, heads, rows]). Without gradients.

    k_cache, v_cache    [batch of the cache, rows, key heads, columns]; with block_table [pages, rows of a page, key
                        heads, columns]
    k, v                new rows, which are written into the cache behind those of cache_seqlens, and then seen
    rotary_cos, _sin    [positions, half of the columns that are turned], as clattn.rotary_table makes them; new keys
                        are turned by where they go, queries too, or with neither causal nor a window all as the first
                        new key
    cache_seqlens       rows that each sequence has in the cache: one number, or [batch]; None: all
    cache_batch_idx     [batch]: which of the cache's sequences each is
    cache_leftpad       [batch]: rows of each sequence that nobody sees, at its beginning
    num_splits is taken for the caller's sake: plans choose K/V splits themselves.
    """
    _check_cache(q, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx, cache_leftpad, block_table)
    query, key, value = _by_heads("q", q), _by_heads("k_cache", k_cache), _by_heads("v_cache", v_cache)
    pages = 1 if block_table is None else block_table.shape[1]
    lengths = _lengths(cache_seqlens, q.shape[0], key.shape[2] * pages)
    # A cache of which some sequences are taken is a pool with a page for each: neither is copied.
    table = block_table if cache_batch_idx is None else cache_batch_idx[:, None].to(torch.int32)
    if k is not None and v is not None:
        is_moving = causal or tuple(window_size) != (-1, -1)
        query = _append(query, _by_heads("k", k), _by_heads("v", v), key, value, lengths, table, rotary_cos, rotary_sin,
                        "interleaved" if rotary_interleaved else "halves", is_moving)
        lengths = [length + k.shape[1] for length in lengths]
    out, lse = _attend(query, key, value, return_softmax_lse, 0.0, softmax_scale, causal, window_size, softcap,
                       alibi_slopes, key_lengths=lengths, page_table=table, **_ranges(cache_leftpad, lengths))
    out = out.transpose(1, 2)
    return out if lse is None else (out, lse)


def _check_cache(q: Tensor, k: Optional[Tensor], v: Optional[Tensor], cosine: Optional[Tensor], sine: Optional[Tensor],
                 lengths: Any, entries: Optional[Tensor], padding: Optional[Tensor], table: Optional[Tensor]) -> None:
    """Raises for what means nothing together, as flash_attn does."""
    pairs = (("k, v", k, v), ("rotary_cos, rotary_sin", cosine, sine))
    for names, one, other in pairs:
        if (one is None) != (other is None):
            raise InvalidArgument(f"{names}: must be given both")
    if k is not None and lengths is None:
        raise InvalidArgument("cache_seqlens: is missing; with k and v it says where they go")
    if k is None and cosine is not None:
        raise InvalidArgument("rotary_cos, rotary_sin: need k and v, whose places queries are turned by")
    for name, given in (("cache_batch_idx", entries), ("cache_leftpad", padding)):
        if given is not None and table is not None:
            raise InvalidArgument(f"{name}: must not be given with block_table, which says where each sequence lies")
        if given is not None and tuple(given.shape) != (q.shape[0],):
            raise InvalidShape(f"{name}: has shape {tuple(given.shape)}; must be [batch], here {(q.shape[0],)}")


def _lengths(given: Union[None, int, Tensor], batch: int, capacity: int) -> List[int]:
    """The rows that each sequence has in the cache."""
    if given is None:
        return [capacity] * batch
    if not isinstance(given, Tensor):
        return [int(given)] * batch
    if given.dim() != 1 or given.shape[0] != batch:
        raise InvalidShape(f"cache_seqlens: has shape {tuple(given.shape)}; must be one number, or [batch], here "
                           f"{(batch,)}")
    return [int(length) for length in given.tolist()]


def _append(query: Tensor, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, starts: List[int],
            table: Optional[Tensor], cosine: Optional[Tensor], sine: Optional[Tensor], pairs: str,
            is_moving: bool) -> Tensor:
    """Writes new rows into the cache, and returns the queries, turned where there are angles."""
    if cosine is None or sine is None:
        append(key, value, key_cache, value_cache, starts=starts, page_table=table)
        return query
    angles: Dict[str, Any] = {"pairs": pairs, "cosine": cosine.float(), "sine": sine.float()}
    turned = append(key, value, key_cache, value_cache, starts=starts, page_table=table,
                    query=query if is_moving and query.shape[2] == key.shape[2] else None, **angles)
    if turned is None:
        first = torch.tensor(starts, dtype=torch.int32)[:, None]
        steps = torch.arange(query.shape[2] if is_moving else 1, dtype=torch.int32)
        turned = _turned(query, positions=(first + steps).expand(-1, query.shape[2]).contiguous(), **angles)
    found: Tensor = turned
    return found


def _ranges(padding: Optional[Tensor], lengths: List[int]) -> Dict[str, Tensor]:
    """Which keys rows see behind those that pad the beginning."""
    if padding is None:
        return {}
    ends = torch.tensor(lengths, dtype=torch.int32)
    return {"row_low": padding.to(torch.int32).reshape(-1, 1, 1), "row_high": ends.reshape(-1, 1, 1)}
