"""torch.nn.attention.flex_attention.flex_attention, served by clattn.torch.flex_attention while enable(flex=True) is in
force."""
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from ._errors import Error, Unsupported
from ._torch_calls import count, declined
from ._torch_flex import flex_attention

_original: Optional[Callable[..., Any]] = None


def _why_not(query: Tensor, key: Tensor, value: Tensor, kernel_options: Any, return_aux: Any) -> Optional[str]:
    for x in (query, key, value):
        if x.device.type != "cpu":
            return f"flex_attention: tensors on {x.device}"
    said = "kernel_options" if kernel_options else "return_aux" if return_aux is not None else None
    return None if said is None else f"flex_attention: {said}, which are of PyTorch's kernels"


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _served(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
            block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False, return_lse: bool = False,
            kernel_options: Any = None, *, return_aux: Any = None) -> Any:
    reason = _why_not(query, key, value, kernel_options, return_aux)
    if reason is None:
        try:
            return flex_attention(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse)
        except Error as error:
            reason = str(error)
    count(declined, reason)
    more = {} if return_aux is None else {"return_aux": return_aux}
    assert _original is not None
    return _original(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse, kernel_options, **more)


def install() -> None:
    """Whoever takes the function out of PyTorch's module from now on has ours."""
    global _original
    try:
        from torch.nn.attention import flex_attention as module
    except ImportError:
        raise Unsupported(f"PyTorch {torch.__version__}: has no flex_attention") from None
    if _original is None:
        _original = module.flex_attention
    module.flex_attention = _served


def remove() -> None:
    """PyTorch's own again. Those who have ours go on with it."""
    if _original is not None:
        from torch.nn.attention import flex_attention as module
        module.flex_attention = _original
