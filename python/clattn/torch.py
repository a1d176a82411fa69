"""clattn in PyTorch, on the CPU.

    clattn.torch.enable()       every scaled_dot_product_attention on the CPU, training too, until disable(); the same
                                is torch.nn.attention.activate_flash_attention_impl("clattn") after the import
    clattn.torch.attention()    all that clattn has, with gradients, also in torch.compile
    clattn.torch.flex_attention()   torch.nn.attention.flex_attention, its functions in the fused kernels
    clattn.torch.rotary()       rows turned by their positions, with gradients
    clattn.torch.ring_attention()   attention over rows that lie on several processes
    clattn.torch.report()       how many calls were served, and why others went to PyTorch's own kernel
"""
from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from ._arrays import Scales
from ._derivatives import has_tangent
from ._errors import InvalidArgument, Unsupported
from ._problem import number, refuse_words, whole, window_of
from ._torch_calls import check_axes, report
from ._torch_dispatch import is_plain
from ._torch_flex import flex_attention
from ._torch_formula import formula
from ._torch_operator import Given, Said, compute, operator, options
from ._torch_ring import ring_attention, rows_of
from ._torch_rotary import rotary
from ._torch_sdpa import disable, enable, is_enabled

__all__ = ["enable", "disable", "is_enabled", "attention", "flex_attention", "ring_attention", "rows_of", "rotary",
    "report"]


def _constant(value: Any, name: str) -> Any:
    """A number of the call, of which there is no gradient."""
    if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(f"{name}: requires a gradient, and there is none of it; give {name}.detach()")
    return number(value, name)


def _scale_of(scale: Any) -> Union[None, float, Tensor]:
    """A number, or a tensor of one, which may require a gradient."""
    if scale is None or not isinstance(scale, Tensor):
        return None if scale is None else number(scale, "scale")
    if scale.numel() != 1 or not scale.is_floating_point() or scale.device.type != "cpu":
        raise InvalidArgument(f"scale: a tensor of {scale.dtype}, shape {tuple(scale.shape)}; must be one real number "
                              "on the CPU")
    return scale


def _seed_of(dropout: float, seed: Optional[int]) -> Optional[Tensor]:
    """The given one, or one that PyTorch's generator draws, so that torch.manual_seed decides."""
    if not dropout:
        return None
    return torch.randint(2**63 - 1, ()) if seed is None else torch.tensor(whole(seed, "seed"), dtype=torch.int64)


def _integers(array: Any, name: str, kind: torch.dtype) -> Optional[Tensor]:
    """A tensor on the CPU of whole numbers, given as one or as a list."""
    if array is None:
        return None
    found = array if isinstance(array, Tensor) else torch.as_tensor(array, device="cpu")
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise InvalidArgument(f"{name}: type {found.dtype}; must be integers")
    return found.to(kind) if kind == torch.int32 and found.dtype != kind else found


def _without_derivatives(given: Given, said: Said) -> Optional[str]:
    """The argument because of which a call has no derivatives."""
    for name, value in (("page_table", given.page_table), ("key_type", said.key_type), ("value_type", said.value_type),
                        ("key_scales", given.key_scales), ("value_scales", given.value_scales)):
        if value is not None and value != "":
            return name
    return None


def _refuse_gradients(given: Given, said: Said) -> None:
    """Raises where some are wanted that there are not."""
    name = _without_derivatives(given, said)
    if name and torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in given):
        raise InvalidArgument(f"{name}: keys in pages, and keys and values as codes, have no gradients; call under "
                              "torch.no_grad(), or give key and value dense, in a floating-point type")


def _in_forward_mode(given: Given, said: Said) -> Tuple[Tensor, Tensor]:
    """By PyTorch's own operators, after the same checks."""
    name = _without_derivatives(given, said) or ("dropout" if said.dropout else None)
    if name:
        raise Unsupported(f"{name}: has no derivatives in forward mode here; give tensors without tangents")
    for tensor, word in zip(given[:3], ("query", "key", "value")):  # of torch.func's they have no memory to look at
        check_axes(word, tensor.shape, str(tensor.dtype)[6:], word == "query")
    options(said, given.offsets is not None)
    return formula(given, said)


def attention(query: Tensor, key: Tensor, value: Tensor, *, mask: Optional[Tensor] = None,
              bias: Optional[Tensor] = None, causal: Optional[str] = None, alignment: Optional[str] = None,
              offsets: Any = None, window: Any = None, always_visible_keys: int = 0,
              scale: Union[None, float, Tensor] = None, softcap: Optional[float] = None,
              slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None, key_lengths: Any = None,
              dropout: float = 0.0, seed: Optional[int] = None, return_lse: bool = False, cu_query: Any = None,
              cu_key: Any = None, page_table: Any = None, page_starts: Any = None, row_low: Any = None,
              row_high: Any = None, key_type: Optional[str] = None, value_type: Optional[str] = None,
              key_scales: Union[None, Tensor, Scales] = None, value_scales: Union[None, Tensor, Scales] = None,
              allow_rounded_weights: bool = False, allow_tf32: bool = False,
              **others: Any) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """clattn.attention as a differentiable operator, whole in torch.compile.

    Shapes and meanings are those of clattn.attention, with all four axes. Gradients: of query, key, value, bias,
    slopes, sinks and of scale where that is a tensor; through out and lse; packed sequences and row ranges too, but not
    keys in pages and codes. dropout draws by `seed`, or by a seed that PyTorch's generator draws. Derivatives in
    forward mode and second ones are computed by PyTorch's own operators, with all scores in memory, and not with
    dropout. key_scales and value_scales are tensors, or clattn.Scales of tensors.
    """
    if others:
        refuse_words("attention", others)
    left, right = window_of(window)
    beside_keys, beside_values = (x if isinstance(x, Scales) else Scales(x) for x in (key_scales, value_scales))
    said = Said(causal or "", alignment or "", left, right, 0.0 if softcap is None else _constant(softcap, "softcap"),
                _constant(dropout, "dropout"), whole(always_visible_keys, "always_visible_keys"),
                bool(allow_rounded_weights), bool(allow_tf32), key_type or "", value_type or "",
                beside_keys.tensor_scale, beside_values.tensor_scale)
    whole_numbers = {name: _integers(array, name, kind) for name, array, kind in (
        ("key_lengths", key_lengths, torch.int64), ("offsets", offsets, torch.int64),
        ("cu_query", cu_query, torch.int64),
        ("cu_key", cu_key, torch.int64), ("page_starts", page_starts, torch.int64),
        ("page_table", page_table, torch.int32),
        ("row_low", row_low, torch.int32), ("row_high", row_high, torch.int32))}
    scale = _scale_of(scale)
    given = Given(query, key, value, mask, bias, slopes, sinks, scale=scale, seed=_seed_of(said.dropout, seed),
                  key_scales=beside_keys.scales, value_scales=beside_values.scales,
                  key_zero_points=beside_keys.zero_points, value_zero_points=beside_values.zero_points, **whole_numbers)
    _refuse_gradients(given, said)
    if is_plain([x for x in given if isinstance(x, Tensor)]):
        found: Any = compute(given, said, bool(return_lse))
    elif has_tangent(*given):
        found = _in_forward_mode(given, said)
    else:
        if scale is not None and not isinstance(scale, Tensor):
            given = given._replace(scale=torch.tensor(scale, dtype=torch.float64))
        found = operator(*given, *said)
    return (found[0], found[1]) if return_lse else found[0]
