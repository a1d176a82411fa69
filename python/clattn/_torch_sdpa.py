"""PyTorch's own attention on the CPU, computed by clattn while that is enabled."""
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.attention
from torch import Tensor

from ._arrays import View, torch_view
from ._attention import call_of, run
from ._context import default_context
from ._errors import Error, InvalidArgument, InvalidShape, Unsupported
from ._fields import _ROWS, broadcast
from ._gradients import run_backward
from ._prepared import Field, Prepared
from ._problem import Options, options_of
from . import _torch_flex_own, _torch_flex_served, _torch_ranks, _torch_varlen
from ._torch_calls import computed, count, declined, outputs, served, tell_of_spinning_threads, views

_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = _FORWARD + "_backward"
_TYPES = (torch.float32, torch.float16, torch.bfloat16)

_lock = threading.Lock()
_registered: Any = None  # the torch.library.Library that holds our kernels; None: disabled
_originals: Dict[str, Any] = {}
_allowed = False, False  # what enable() lets matrix units round: weights, to tf32


def _why_not(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Optional[str]:
    """Why PyTorch's kernel must compute a call; None: it need not."""
    if dropout:
        return "dropout: PyTorch draws it from a generator of its own"
    if query.dtype == torch.float64:
        return "float64: lse has float32 here, and gradients would have its rounding"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return f"types {query.dtype}, {key.dtype}, {value.dtype}"
    return None


def _mask_fields(mask: Optional[Tensor], shape: Sequence[int]) -> List[Field]:
    if mask is None:
        return []
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        raise InvalidArgument(f"mask: type {mask.dtype}; must be torch.bool or numbers with a point")
    name = "mask" if mask.dtype == torch.bool else "bias"
    return [(name, broadcast(mask, shape, name), _ROWS)]


def _kernel_options(is_causal: bool, dtype: torch.dtype) -> Options:
    """A call of PyTorch's has none of its own for what a matrix unit may round."""
    rounded, tf32 = _allowed
    return options_of("top-left" if is_causal else None, allow_rounded_weights=rounded and dtype != torch.float32,
                      allow_tf32=tf32 and dtype == torch.float32)


def _arguments(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], is_causal: bool,
               scale: Optional[float]) -> Tuple[View, View, View, List[Field], Any, Options]:
    """What both directions give to the library."""
    q, k, v = views(query, key, value)
    if v.shape[3] != q.shape[3]:
        raise InvalidShape(f"columns: query has {q.shape[3]}, value {v.shape[3]}; must be equal")
    fields = _mask_fields(mask, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    return q, k, v, fields, call_of(k.shape[2], scale), _kernel_options(is_causal, query.dtype)


def _kernel(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], is_causal: bool,
            scale: Optional[float]) -> Tuple[Tensor, Tensor]:
    """(out, lse) as PyTorch's kernel lays them out."""
    def first() -> Tuple[List[Tensor], Prepared, Any]:
        q, k, v, fields, call, options = _arguments(query, key, value, mask, is_causal, scale)
        out = torch.empty_like(query)
        lse = query.new_empty((query.shape[0], query.shape[2], query.shape[1]), dtype=torch.float32).transpose(1, 2)
        return [out, lse], run(default_context(), q, k, v, fields, call, options, outputs((out, lse))), call

    given = (query, key, value) if mask is None else (query, key, value, mask)
    out, lse = computed(given, (is_causal, scale, _allowed), first)
    if mask is not None:
        lse.masked_fill_(lse == float("-inf"), 0.0)  # as PyTorch's kernel has rows without a key
    return out, lse


def _forward(keys: Any, query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
             attn_mask: Optional[Tensor] = None, scale: Optional[float] = None) -> Any:
    reason = _why_not(query, key, value, dropout_p)
    if reason is None:
        try:
            found = _kernel(query, key, value, attn_mask, is_causal, scale)
            count(served, "forward")
            return found
        except Error as error:
            reason = str(error)
    count(declined, reason)
    return _originals[_FORWARD].call_boxed(keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask,
                                           scale=scale)


def _backward(keys: Any, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
              dropout_p: float, is_causal: bool, *, attn_mask: Optional[Tensor] = None,
              scale: Optional[float] = None) -> Any:
    reason = _why_not(query, key, value, dropout_p)
    if reason is None:
        try:
            q, k, v, fields, call, options = _arguments(query, key, value, attn_mask, is_causal, scale)
            grads = [torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
                     for x in (query, key, value)]
            run_backward(default_context(), q, k, v, fields, call, options, torch_view(out), torch_view(logsumexp),
                         torch_view(grad_out), dict(zip(("dquery", "dkey", "dvalue"), map(torch_view, grads))))
            count(served, "backward")
            return tuple(grads)
        except Error as error:
            reason = str(error)
    count(declined, reason)
    return _originals[_BACKWARD].call_boxed(keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal,
                                            attn_mask=attn_mask, scale=scale)


def enable(*, allow_rounded_weights: bool = False, allow_tf32: bool = False, flex: bool = False) -> None:
    """Computes attention on the CPU by clattn from now on: whatever calls scaled_dot_product_attention, forward and
    backward, eager and compiled, where PyTorch would take its flash kernel. What matrix units may round is said as in
    clattn.attention, and by a later call anew: weights of float16 and bfloat16 calls, numbers of float32 calls.
    PyTorch's context_parallel works on the CPU too then, forward and backward, and torch.nn.attention.varlen_attn,
    which PyTorch has for GPUs alone. flex: flex_attention too, for who takes it out of its module in
    torch.nn.attention from now on; a later call without it gives PyTorch's back. Raises Error where there is no
    device."""
    global _registered, _allowed
    if not hasattr(torch.library, "get_kernel"):
        raise Unsupported(f"PyTorch {torch.__version__}: has no torch.library.get_kernel, by which a call that is not "
                          "served goes back to PyTorch's own; needs PyTorch 2.9. clattn.torch.attention works")
    default_context()
    tell_of_spinning_threads()
    with _lock:
        _allowed = bool(allow_rounded_weights), bool(allow_tf32)
        (_torch_flex_served.install if flex else _torch_flex_own.restore)()
        if _registered is not None:
            return
        library = torch.library.Library("aten", "IMPL")
        for name, kernel in ((_FORWARD, _forward), (_BACKWARD, _backward)):
            if name not in _originals:
                _originals[name] = torch.library.get_kernel(f"aten::{name}", "CPU")
            library.impl(name, kernel, "CPU", with_keyset=True, allow_override=True)
        _torch_varlen.install(library)
        _registered = library
        _torch_ranks.install()


def disable() -> None:
    """PyTorch's own kernels again, with the bits that they had."""
    global _registered
    with _lock:
        if _registered is not None:
            _registered._destroy()
            _registered = None
            _torch_ranks.remove()
            _torch_flex_own.restore()


def is_enabled() -> bool:
    """Whether enable() is in force."""
    return _registered is not None


class _Activated:
    """What PyTorch's registry keeps while we are its flash kernel."""

    def remove(self) -> None:
        disable()


def _activate() -> _Activated:
    enable()
    return _Activated()


if hasattr(torch.nn.attention, "register_flash_attention_impl"):  # older PyTorch has no such registry
    torch.nn.attention.register_flash_attention_impl("clattn", register_fn=_activate)
