"""torch.nn.attention.varlen_attn on the CPU, where PyTorch has no kernel for it: the operators that it calls, which are
of packed sequences, computed by clattn while enable() is in force."""
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from ._errors import InvalidArgument
from ._torch_operator import Given, Said, backward, compute

_FORWARD = "_flash_attention_forward"
_IN_PLACE = "_flash_attention_forward_no_dropout_inplace"
_BACKWARD = "_flash_attention_backward"


def _by_heads(rows: Tensor) -> Tensor:
    """A view [batch, heads, rows, columns]; packed sequences [rows of all, heads, columns] are a batch of one."""
    return (rows.unsqueeze(0) if rows.dim() == 3 else rows).transpose(1, 2)


def _as_given(by_heads: Tensor, of: Tensor) -> Tensor:
    """Rows of the axes that the caller's have."""
    found = by_heads.transpose(1, 2)
    return found.squeeze(0) if of.dim() == 3 else found


def _whole(number: Any) -> int:
    return -1 if number is None else int(number)


def _call(query: Tensor, key: Tensor, value: Tensor, cum_seq_q: Optional[Tensor], cum_seq_k: Optional[Tensor],
          dropout_p: float, is_causal: bool, scale: Optional[float] = None, window_size_left: Any = None,
          window_size_right: Any = None, seqused_k: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None,
          block_table: Optional[Tensor] = None) -> Tuple[Given, Said]:
    """What PyTorch's operators are given, in clattn's words. Rows and keys are aligned at their ends."""
    if dropout_p:
        raise InvalidArgument(f"dropout_p {dropout_p}: must be 0 in packed sequences on the CPU; PyTorch draws it from "
                              "a generator of its own")
    lengths = seqused_k
    if block_table is not None and lengths is None:
        if cum_seq_k is None:
            raise InvalidArgument("block_table: needs seqused_k, the number of keys of each sequence")
        lengths = cum_seq_k.diff()
    given = Given(_by_heads(query), _by_heads(key), _by_heads(value), slopes=alibi_slopes, scale=scale,
                  cu_query=cum_seq_q, cu_key=None if block_table is not None else cum_seq_k, page_table=block_table,
                  key_lengths=lengths)
    return given, Said("bottom-right" if is_causal else "", "bottom-right", _whole(window_size_left),
                       _whole(window_size_right))


def _forward(query: Tensor, key: Tensor, value: Tensor, cum_seq_q: Optional[Tensor], cum_seq_k: Optional[Tensor],
             max_q: Any, max_k: Any, dropout_p: float, is_causal: bool, return_debug_mask: bool, *,
             num_splits: Optional[int] = None, **said: Any) -> Tuple[Tensor, ...]:
    """num_splits is taken for the caller's sake: plans choose K/V splits themselves, by shapes alone."""
    out, lse = compute(*_call(query, key, value, cum_seq_q, cum_seq_k, dropout_p, is_causal, **said), True)
    nothing = query.new_empty(0)
    return (_as_given(out, query), lse.squeeze(0) if query.dim() == 3 else lse,
            torch.zeros(2, dtype=torch.uint64), nothing, nothing)


def _forward_in_place(out: Tensor, *given: Any, **said: Any) -> Tensor:
    """The operator's lse; out is the caller's."""
    found, lse, *_ = _forward(*given, **said)
    out.copy_(found)
    return lse


def _backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
              cum_seq_q: Tensor, cum_seq_k: Tensor, max_q: Any, max_k: Any, dropout_p: float, is_causal: bool,
              rng_state: Tensor, unused: Tensor, **said: Any) -> Tuple[Tensor, ...]:
    given, words = _call(query, key, value, cum_seq_q, cum_seq_k, dropout_p, is_causal, **said)
    lse = logsumexp.unsqueeze(0) if query.dim() == 3 else logsumexp
    found = backward(_by_heads(grad_out), None, _by_heads(out), lse, *given, *words, False, False, False, False)
    return tuple(_as_given(grad, of) for grad, of in zip(found, (query, key, value)))


def install(library: Any) -> None:
    """As kernels of the CPU in `library`, a torch.library.Library of aten, which takes them away again."""
    for name, kernel in ((_FORWARD, _forward), (_IN_PLACE, _forward_in_place), (_BACKWARD, _backward)):
        if hasattr(torch.ops.aten, name) and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU"):
            library.impl(name, kernel, "CPU")
