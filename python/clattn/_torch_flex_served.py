"""torch.nn.attention.flex_attention.flex_attention, served by clattn.torch.flex_attention while enable(flex=True) is in
force."""
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from ._errors import Error
from ._torch_calls import count, declined
from ._torch_flex import attention_of
from ._torch_flex_graph import is_known_to_dynamo
from ._torch_flex_own import call, replace


def _why_not(query: Tensor, key: Tensor, value: Tensor, kernel_options: Any, return_lse: bool,
             return_aux: Any) -> Optional[str]:
    for x in (query, key, value):
        if x.device.type != "cpu":
            return f"flex_attention: tensors on {x.device}"
    said = "kernel_options" if kernel_options else \
        "return_aux.max_scores" if return_aux is not None and return_aux.max_scores else None
    if return_lse and return_aux is not None:
        return "flex_attention: return_lse beside return_aux"
    return None if said is None else f"flex_attention: {said}, which are of PyTorch's kernels"


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _where_no_graph_is_made(reason: Optional[str], arguments: Any, kernel_options: Any, return_aux: Any) -> Any:
    if reason is None:
        try:
            return _ours(arguments, return_aux)
        except Error as error:
            reason = str(error)
    count(declined, reason)
    return _owns(arguments, kernel_options, return_aux)


def _ours(arguments: Any, return_aux: Any) -> Any:
    query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse = arguments
    has_lse = return_lse if return_aux is None else return_aux.lse
    found = attention_of(query, key, value, score_mod, block_mask, scale, enable_gqa, has_lse, True)
    if return_aux is None:
        return found
    from torch.nn.attention.flex_attention import AuxOutput
    return (found[0], AuxOutput(lse=found[1])) if has_lse else (found, AuxOutput())


def _owns(arguments: Any, kernel_options: Any, return_aux: Any) -> Any:
    more = {} if return_aux is None else {"return_aux": return_aux}
    return call(*arguments, kernel_options, **more)


def _served(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
            block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False, return_lse: bool = False,
            kernel_options: Any = None, *, return_aux: Any = None) -> Any:
    reason = _why_not(query, key, value, kernel_options, return_lse, return_aux)
    arguments = query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse
    if not (torch.compiler.is_dynamo_compiling() and is_known_to_dynamo):
        return _where_no_graph_is_made(reason, arguments, kernel_options, return_aux)
    if reason is None:  # what only the call shows is declined in the operator
        return _ours(arguments, return_aux)
    return _owns(arguments, kernel_options, return_aux)


def install() -> None:
    replace(_served)
