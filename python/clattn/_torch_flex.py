"""clattn.torch.flex_attention: torch.nn.attention.flex_attention's functions as a text in the fused kernels."""
from typing import Any, Callable, Optional, Tuple, Union

import torch
from torch import Tensor

from ._errors import InvalidShape
from ._flex_blocks import blocks_of_mask, fitting, lists_of
from ._flex_call import Asked, asked_of
from ._problem import number
from ._torch_flex_eager import attend
from ._torch_flex_graph import attend_in_graph, is_known_to_dynamo


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _asked(query: Tensor, key: Tensor, score_mod: Optional[Callable[..., Any]], block_mask: Any,
           scale: Optional[float]) -> Asked:
    from torch.nn.attention.flex_attention import noop_mask
    mask_mod = blocks = None
    if block_mask is not None:
        mask_mod = None if block_mask.mask_mod is noop_mask else block_mask.mask_mod
        blocks = fitting(lists_of(block_mask), blocks_of_mask(block_mask), query, key, mask_mod is not None)
    return asked_of(score_mod, mask_mod, blocks, scale)


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
                   block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False,
                   return_lse: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """torch.nn.attention.flex_attention on CPU tensors, its functions compiled into the fused kernels, with gradients.

    query [batch, heads, rows, columns]; key, value [batch or 1, heads, keys, columns], fewer heads with enable_gqa.

    score_mod(score, b, h, q_idx, kv_idx) and the mask_mod of a BlockMask are traced by PyTorch to operators, and these
    written as a text. An operator that has no line there is an Unsupported (a NotImplementedError) that names it.
    Tensors that they capture are read in each call, at most 8, and at most 8 numbers of them without axes; an index
    behind an end of one takes its last element. A function is traced again where anything that it reads may have
    changed. A row that sees no key is 0, its lse -inf. A BlockMask is taken as it is: blocks that
    it does not list are skipped, of full ones its mask_mod is not asked.

    Gradients: of query, key and value, through out and lse, by PyTorch's derivative of score_mod; and of floating
    tensors that score_mod captures, for which the derivatives of all logits are in memory, [batch, heads, rows, keys].
    torch.compile takes it into its graph, functions and all. Under torch.autocast query, key and value are cast.
    """
    return attention_of(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, False)


def attention_of(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]], block_mask: Any,
                 scale: Optional[float], enable_gqa: bool, return_lse: bool,
                 may_decline: bool) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """may_decline: where a graph of torch.compile is made, and its call cannot be computed, PyTorch's own function
    does; elsewhere it is an Error."""
    if not enable_gqa and query.dim() == 4 and key.dim() == 4 and query.shape[1] != key.shape[1]:
        raise InvalidShape(f"key: has {key.shape[1]} heads, query {query.shape[1]}; must be as many without "
                           "enable_gqa=True")
    if query.dim() == key.dim() == value.dim() == 4 and key.shape[0] == 1 < query.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (x.to(torch.get_autocast_dtype("cpu"))
                             if x.is_floating_point() and x.dtype != torch.float64 else x for x in (query, key, value))
    scale = None if scale is None else number(scale, "scale")
    if torch.compiler.is_dynamo_compiling() and is_known_to_dynamo:
        found = attend_in_graph(query, key, value, score_mod, block_mask, scale, may_decline)
    else:
        asked = _asked(query, key, score_mod, block_mask, scale)
        found = attend(query, key, value, asked, bool(return_lse))
    if not return_lse:
        return found[0]
    return found[0], found[1].double() if query.dtype == torch.float64 else found[1]
