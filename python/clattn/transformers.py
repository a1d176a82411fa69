"""clattn in Hugging Face's transformers: import this module, and models take attn_implementation="clattn".

    import clattn.transformers
    model = AutoModel.from_pretrained(name, attn_implementation="clattn")

Attention and mask functions are registered together: without the second, transformers passes no mask at all. Keys and
values of grouped heads are not repeated, masks stay bool, softcaps, sinks, windows and T5's position bias are computed
in the same kernel. Calls with dropout, which models make in training only, go to PyTorch's attention, counted by
clattn.torch.report().
"""
from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from . import torch as _torch
from ._errors import Unsupported
from ._torch_calls import count, declined

__all__ = ["attention_forward"]

NAME = "clattn"


def _is_causal(module: Any, query: Tensor, mask: Optional[Tensor], is_causal: Optional[bool]) -> bool:
    """As transformers decides it for PyTorch: a mask says all, and one row sees every key."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    return bool(is_causal) and mask is None and query.shape[2] > 1


def _mask_and_bias(mask: Optional[Tensor],
                   position_bias: Optional[Tensor]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """The mask is what may be seen (bool) or what is added; a position bias is added too."""
    if mask is None or mask.dtype == torch.bool:
        return mask, position_bias
    return None, mask if position_bias is None else mask + position_bias


def attention_forward(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
                      dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      softcap: Optional[float] = None, s_aux: Optional[Tensor] = None,
                      position_bias: Optional[Tensor] = None, **kwargs: Any) -> Tuple[Tensor, None]:
    """What transformers calls: query [batch, heads, rows, columns], keys and values with their own number of heads.
    Returns ([batch, rows, heads, columns], None)."""
    if dropout or query.device.type != "cpu" or kwargs.get("cache") is not None:
        return _by_pytorch(module, query, key, value, attention_mask, dropout, scaling, is_causal, softcap, s_aux,
                           position_bias, kwargs)
    causal = _is_causal(module, query, attention_mask, is_causal)
    if causal and key.shape[2] > query.shape[2]:  # an empty static cache: its rows are not written yet
        key, value = key[:, :, :query.shape[2]], value[:, :, :query.shape[2]]
        position_bias = None if position_bias is None else position_bias[..., :query.shape[2]]
    mask, bias = _mask_and_bias(attention_mask, position_bias)
    if key.dtype != query.dtype:
        key, value = key.to(query.dtype), value.to(query.dtype)
    out: Any = _torch.attention(query, key, value, mask=mask, bias=bias, causal="top-left" if causal else None,
                           scale=scaling, softcap=softcap, sinks=s_aux)
    return out.transpose(1, 2).contiguous(), None


def _by_pytorch(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], dropout: float,
                scaling: Optional[float], is_causal: Optional[bool], softcap: Optional[float], s_aux: Optional[Tensor],
                position_bias: Optional[Tensor], kwargs: Any) -> Tuple[Tensor, None]:
    reason = ("dropout: PyTorch draws it from a generator of its own" if dropout else f"tensors on {query.device}"
              if query.device.type != "cpu" else "a paged cache of transformers' own")
    if softcap is not None or s_aux is not None:
        raise Unsupported(f"clattn in transformers: {reason}, and PyTorch's attention has no softcap and no sinks; use "
                          'attn_implementation="eager", or model.eval()')
    count(declined, reason)
    found: Tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, mask, dropout=dropout,
                                                        scaling=scaling, is_causal=is_causal,
                                                        position_bias=position_bias, **kwargs)
    return found


AttentionInterface.register(NAME, attention_forward)
AttentionMaskInterface.register(NAME, sdpa_mask)
