"""PyTorch's own flex_attention: put aside while clattn's is in its place, and asked for what that one declines."""
import concurrent.futures
from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._errors import Unsupported

_own: Optional[Callable[..., Any]] = None


def replace(by: Callable[..., Any]) -> None:
    """Whoever takes the function out of PyTorch's module from now on has this one."""
    global _own
    try:
        from torch.nn.attention import flex_attention as module
    except ImportError:
        raise Unsupported(f"PyTorch {torch.__version__}: has no flex_attention") from None
    if _own is None:
        _own = module.flex_attention
    module.flex_attention = by


def restore() -> None:
    """PyTorch's own again. Those who have another go on with it."""
    if _own is not None:
        from torch.nn.attention import flex_attention as module
        module.flex_attention = _own


def call(*arguments: Any, **named: Any) -> Any:
    """PyTorch's own."""
    assert _own is not None
    return _own(*arguments, **named)


def attend(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]],
           mask_mod: Optional[Callable[..., Any]], lists: Sequence[Tensor], sizes: Sequence[int],
           scale: Optional[float]) -> Tuple[Tensor, Tensor]:
    """(out, lse) of what a graph of torch.compile has of a call: of a BlockMask its lists and sizes, if it is given."""
    from torch.nn.attention.flex_attention import AuxRequest, BlockMask

    def eager() -> Any:
        mask = None
        if lists:
            names = "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"
            given: Any = dict(zip(names, lists))
            mask = BlockMask.from_kv_blocks(**given, BLOCK_SIZE=(sizes[0], sizes[1]), mask_mod=mask_mod,
                                            seq_lengths=(sizes[2], sizes[3]))
        with torch.no_grad():
            return call(query, key, value, score_mod, mask, scale, enable_gqa=query.shape[1] != key.shape[1],
                        return_aux=AuxRequest(lse=True))
    # a graph runs within modes that are of its thread, and do not know the batched tensors that this makes
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        out, more = thread.submit(eager).result()
    return out, more.lse
