"""clattn in PyTorch, on the CPU.

    clattn.torch.enable()       every scaled_dot_product_attention on the CPU, training too, until disable(); the same
                                is torch.nn.attention.activate_flash_attention_impl("clattn") after the import
    clattn.torch.attention()    all that clattn has, with gradients, also in torch.compile
    clattn.torch.report()       how many calls were served, and why others went to PyTorch's own kernel
"""
import ctypes
import threading
from collections import Counter
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
import torch.autograd.forward_ad
import torch.nn.attention
from torch import Tensor

from ._arrays import torch_view
from ._attention import _OUT_TYPES, _ROWS, Field, Prepared, broadcast, call_of, check_shapes, optional_fields, run
from ._context import default_context
from ._derivatives import refuse_tangents
from ._errors import Error, InvalidArgument, InvalidShape, Unsupported
from ._gradients import run_backward
from ._problem import KEPT, number, options_of, window_of

__all__ = ["enable", "disable", "is_enabled", "attention", "report"]

_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = _FORWARD + "_backward"
_TYPES = (torch.float32, torch.float16, torch.bfloat16)

_lock, _counting = threading.Lock(), threading.Lock()
_registered = None  # the torch.library.Library that holds our kernels; None: disabled
_originals: Dict[str, Any] = {}
_allowed = False, False  # what enable() lets matrix units round: weights, to tf32
_served: "Counter[str]" = Counter()
_declined: "Counter[str]" = Counter()


def _count(counter, name):
    with _counting:
        counter[name] += 1


def _views(query, key, value, floating=("query",)):
    """Of three tensors that fit each other; those in `floating` must be of a floating-point type."""
    views = []
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        found = torch_view(tensor)
        if len(found.shape) != 4:
            raise InvalidShape(f"{name}: has shape {found.shape}; must be [batch, heads, rows, columns]")
        if name in floating and found.type not in _OUT_TYPES:
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
        views.append(found)
    check_shapes(*views)
    return views


def _outputs(out, lse) -> List[Field]:
    return [("out", torch_view(out), _ROWS), ("lse", torch_view(lse), _ROWS[:3])]


# ---- calls that were made before ---------------------------------------------------------------------------------------


class _Again:
    """A call that was made: what another one needs whose tensors have the same types, shapes and strides."""

    def __init__(self, prepared: Prepared, call: Any, out: Tensor, lse: Tensor):
        self.prepared, self.call = prepared, ctypes.byref(call)
        self.out, self.lse = ((x.shape, x.stride(), x.dtype) for x in (out, lse))

    def compute(self, tensors):
        shape, stride, dtype = self.out
        out = torch.empty_strided(shape, stride, dtype=dtype, device=_CPU)
        shape, stride, dtype = self.lse
        lse = torch.empty_strided(shape, stride, dtype=dtype, device=_CPU)
        self.prepared.compute(default_context(), self.call, [x.data_ptr() for x in (*tensors, out, lse)])
        return out, lse


_CPU = torch.device("cpu")
_again: Dict[Any, _Again] = {}


def _computed(tensors, said, first):
    """(out, lse) of tensors on the CPU, in the order of the library's fields, and of what is said in numbers and words;
    first() computes what was never computed before: (out, lse, what it had prepared, its clattn_call)."""
    identity = said, *[(x.dtype, x.shape, x.stride()) for x in tensors]
    again = _again.get(identity)
    if again is not None:
        return again.compute(tensors)
    out, lse, prepared, call = first()
    if len(_again) >= KEPT:  # a decoder's cache grows by a row each step
        _again.clear()
    _again[identity] = _Again(prepared, call, out, lse)
    return out, lse


# ---- scaled_dot_product_attention -------------------------------------------------------------------------------------


def _why_not(query, key, value, dropout):
    """Why PyTorch's kernel must compute a call; None: it need not."""
    if dropout:
        return "dropout: PyTorch draws it from a generator of its own"
    if query.dtype == torch.float64:
        return "float64: lse has float32 here, and gradients would have its rounding"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return f"types {query.dtype}, {key.dtype}, {value.dtype}"
    return None


def _mask_fields(mask, shape):
    if mask is None:
        return []
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        raise InvalidArgument(f"mask: type {mask.dtype}; must be torch.bool or numbers with a point")
    name = "mask" if mask.dtype == torch.bool else "bias"
    return [(name, broadcast(mask, shape, name), _ROWS)]


def _kernel_options(is_causal, dtype):
    """A call of PyTorch's has none of its own for what a matrix unit may round."""
    rounded, tf32 = _allowed
    return options_of("top-left" if is_causal else None, allow_rounded_weights=rounded and dtype != torch.float32,
                      allow_tf32=tf32 and dtype == torch.float32)


def _arguments(query, key, value, mask, is_causal, scale):
    """What both directions give to the library."""
    q, k, v = _views(query, key, value)
    if v.shape[3] != q.shape[3]:
        raise InvalidShape(f"columns: query has {q.shape[3]}, value {v.shape[3]}; must be equal")
    fields = _mask_fields(mask, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    return q, k, v, fields, call_of(q, k, scale), _kernel_options(is_causal, query.dtype)


def _kernel(query, key, value, mask, is_causal, scale):
    """(out, lse) as PyTorch's kernel lays them out."""
    def first():
        q, k, v, fields, call, options = _arguments(query, key, value, mask, is_causal, scale)
        out = torch.empty_like(query)
        lse = query.new_empty((query.shape[0], query.shape[2], query.shape[1]), dtype=torch.float32).transpose(1, 2)
        return out, lse, run(default_context(), q, k, v, fields, call, options, _outputs(out, lse)), call

    given = (query, key, value) if mask is None else (query, key, value, mask)
    out, lse = _computed(given, (is_causal, scale, _allowed), first)
    if mask is not None:
        lse.masked_fill_(lse == float("-inf"), 0.0)  # as PyTorch's kernel has rows without a key
    return out, lse


def _forward(keys, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    reason = _why_not(query, key, value, dropout_p)
    if reason is None:
        try:
            found = _kernel(query, key, value, attn_mask, is_causal, scale)
            _count(_served, "forward")
            return found
        except Error as error:
            reason = str(error)
    _count(_declined, reason)
    return _originals[_FORWARD].call_boxed(keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask,
                                           scale=scale)


def _backward(keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    reason = _why_not(query, key, value, dropout_p)
    if reason is None:
        try:
            q, k, v, fields, call, options = _arguments(query, key, value, attn_mask, is_causal, scale)
            grads = [torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
                     for x in (query, key, value)]
            run_backward(default_context(), q, k, v, fields, call, options, torch_view(out), torch_view(logsumexp),
                         torch_view(grad_out), dict(zip(("dquery", "dkey", "dvalue"), map(torch_view, grads))))
            _count(_served, "backward")
            return tuple(grads)
        except Error as error:
            reason = str(error)
    _count(_declined, reason)
    return _originals[_BACKWARD].call_boxed(keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal,
                                            attn_mask=attn_mask, scale=scale)


def enable(*, allow_rounded_weights: bool = False, allow_tf32: bool = False) -> None:
    """Computes attention on the CPU by clattn from now on: whatever calls scaled_dot_product_attention, forward and
    backward, eager and compiled, where PyTorch would take its flash kernel. What matrix units may round is said as in
    clattn.attention, and by a later call anew: weights of float16 and bfloat16 calls, numbers of float32 calls. Raises
    Error where there is no device."""
    global _registered, _allowed
    if not hasattr(torch.library, "get_kernel"):
        raise Unsupported(f"PyTorch {torch.__version__}: has no torch.library.get_kernel, by which a call that is not "
                          "served goes back to PyTorch's own; needs PyTorch 2.9. clattn.torch.attention works")
    default_context()
    with _lock:
        _allowed = bool(allow_rounded_weights), bool(allow_tf32)
        if _registered is not None:
            return
        library = torch.library.Library("aten", "IMPL")
        for name, kernel in ((_FORWARD, _forward), (_BACKWARD, _backward)):
            if name not in _originals:
                _originals[name] = torch.library.get_kernel(f"aten::{name}", "CPU")
            library.impl(name, kernel, "CPU", with_keyset=True, allow_override=True)
        _registered = library


def disable() -> None:
    """PyTorch's own kernels again, with the bits that they had."""
    global _registered
    with _lock:
        if _registered is not None:
            _registered._destroy()
            _registered = None


def is_enabled() -> bool:
    """Whether enable() is in force."""
    return _registered is not None


def report(clear: bool = False) -> Dict[str, Dict[str, int]]:
    """{"served": {direction: calls}, "declined": {reason: calls}} since the start, or since it was cleared. Calls that
    PyTorch never hands to its flash kernel on the CPU (values of another head dim, dropout, no gradient of a mask) are
    not counted: clattn.torch.attention serves most of these."""
    with _counting:
        found = {"served": dict(_served), "declined": dict(_declined)}
        if clear:
            _served.clear()
            _declined.clear()
    return found


class _Activated:
    """What PyTorch's registry keeps while we are its flash kernel."""

    def remove(self) -> None:
        disable()


def _activate():
    enable()
    return _Activated()


if hasattr(torch.nn.attention, "register_flash_attention_impl"):  # older PyTorch has no such registry
    torch.nn.attention.register_flash_attention_impl("clattn", register_fn=_activate)


# ---- an operator of its own -------------------------------------------------------------------------------------------


def _options(causal, alignment, left, right, softcap, rounded, tf32):
    return options_of(causal or None, alignment or None, window=(left, right), softcap=softcap,
                      allow_rounded_weights=rounded, allow_tf32=tf32)


def _fields(query, key, mask, bias, slopes, sinks, key_lengths):
    batch, heads, rows = query.shape[:3]
    return optional_fields((batch, heads, rows, key.shape[2]), batch, heads, mask, bias, slopes, sinks,
                           None if key_lengths is None else key_lengths.tolist(), None)


def _like(tensor, columns):
    """A new one with as many columns, with its rows beside each other in memory where the tensor's are, or its heads:
    models split heads from rows that lie together, and join them again."""
    batch, heads, rows, _ = tensor.shape
    if tensor.stride(1) < tensor.stride(2):
        return tensor.new_empty((batch, rows, heads, columns)).transpose(1, 2)
    return tensor.new_empty((batch, heads, rows, columns))


def _compute(query, key, value, mask, bias, slopes, sinks, key_lengths, said, scale):
    """(out, lse); `said`: the arguments of _options."""
    def first():
        q, k, v = _views(query, key, value)
        out, lse = _like(query, value.shape[3]), query.new_empty(query.shape[:3], dtype=torch.float32)
        call = call_of(q, k, scale)
        prepared = run(default_context(), q, k, v, _fields(query, key, mask, bias, slopes, sinks, key_lengths), call,
                       _options(*said), _outputs(out, lse))
        return out, lse, prepared, call

    if slopes is sinks is key_lengths is None:
        found = _computed([x for x in (query, key, value, mask, bias) if x is not None],
                          (mask is None, scale, *said), first)
    else:  # they go to the library in another form, which is made for each call
        found = first()[:2]
    _count(_served, "attention")
    return found


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _operator(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
              slopes: Optional[Tensor], sinks: Optional[Tensor], key_lengths: Optional[Tensor], causal: str,
              alignment: str, window_left: int, window_right: int, scale: Optional[float], softcap: float,
              rounded: bool, tf32: bool) -> Tuple[Tensor, Tensor]:
    return _compute(query, key, value, mask, bias, slopes, sinks, key_lengths,
                    (causal, alignment, window_left, window_right, softcap, rounded, tf32), scale)


@_operator.register_fake
def _(query, key, value, mask, bias, slopes, sinks, key_lengths, causal, alignment, window_left, window_right, scale,
      softcap, rounded, tf32):
    return _like(query, value.shape[3]), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward_operator(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor,
                       mask: Optional[Tensor], bias: Optional[Tensor], slopes: Optional[Tensor],
                       sinks: Optional[Tensor], key_lengths: Optional[Tensor], causal: str, alignment: str,
                       window_left: int, window_right: int, scale: Optional[float], softcap: float, rounded: bool,
                       tf32: bool, of_bias: bool, of_slopes: bool, of_sinks: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    q, k, v = _views(query, key, value, floating=("query", "key", "value"))
    batch, heads, rows, _ = q.shape
    grads = [_like(x, x.shape[3]) for x in (query, key, value)]
    gradients = dict(zip(("dquery", "dkey", "dvalue"), map(torch_view, grads)))
    for wanted, name, like, shape in ((of_bias, "dbias", bias, (batch, heads, rows, k.shape[2])),
                                      (of_slopes, "dslopes", slopes, (batch, heads)), (of_sinks, "dsinks", sinks, (heads,))):
        kind = torch.float64 if query.dtype == torch.float64 else torch.float32
        grads.append(query.new_empty(like.shape if wanted else (0,), dtype=like.dtype if name == "dbias" and wanted
                                     else kind))
        if wanted:
            gradients[name] = broadcast(grads[-1], shape, name)
    run_backward(default_context(), q, k, v, _fields(query, key, mask, bias, slopes, sinks, key_lengths),
                 call_of(q, k, scale), _options(causal, alignment, window_left, window_right, softcap, rounded, tf32),
                 torch_view(out), torch_view(lse), torch_view(grad_out), gradients)
    _count(_served, "attention, backward")
    return tuple(grads)


@_backward_operator.register_fake
def _(grad_out, query, key, value, out, lse, mask, bias, slopes, sinks, key_lengths, causal, alignment, window_left,
      window_right, scale, softcap, rounded, tf32, of_bias, of_slopes, of_sinks):
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    none = (0,)
    return tuple([_like(x, x.shape[3]) for x in (query, key, value)] +
                 [bias.new_empty(bias.shape) if of_bias else query.new_empty(none, dtype=kind),
                  query.new_empty(slopes.shape if of_slopes else none, dtype=kind),
                  query.new_empty(sinks.shape if of_sinks else none, dtype=kind)])


def _setup_context(ctx, inputs, output):
    query, key, value, mask, bias, slopes, sinks, key_lengths, *ctx.rest = inputs
    ctx.save_for_backward(query, key, value, *output, mask, bias, slopes, sinks, key_lengths)
    ctx.set_materialize_grads(True)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, grad_out, _):
    query, key, value, out, lse, mask, bias, slopes, sinks, key_lengths = ctx.saved_tensors
    wanted = ctx.needs_input_grad[4:7]
    dquery, dkey, dvalue, dbias, dslopes, dsinks = _backward_operator(
        grad_out, query, key, value, out, lse, mask, bias, slopes, sinks, key_lengths, *ctx.rest, *wanted)
    optional = [grad.to(like.dtype) if is_wanted else None
                for grad, like, is_wanted in zip((dbias, dslopes, dsinks), (bias, slopes, sinks), wanted)]
    return dquery, dkey, dvalue, None, *optional, *([None] * 9)


_operator.register_autograd(_gradients, setup_context=_setup_context)


def _key_set(*names):
    """PyTorch's number for a set of its dispatcher's keys; None where this PyTorch does not tell."""
    try:
        found = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
        for name in names[1:]:
            found = found | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
        return found.raw_repr()
    except AttributeError:
        return None


# What a tensor on the CPU has, and what a thread in none of PyTorch's modes has; then both in inference_mode().
_PLAIN = _key_set("CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU"), _key_set("CPU", "AutocastCPU")
_NO_MODE = _key_set("BackendSelect", "ADInplaceOrView"), _key_set("BackendSelect")
_TENSORS = (Tensor, torch.nn.Parameter)


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether PyTorch's dispatcher would do nothing with an operator on them but call its kernel for the CPU, so that it
    need not be asked: none is of another class or place, no gradient is wanted, and nothing watches or transforms."""
    if torch.compiler.is_compiling() or None in _PLAIN or torch._C._len_torch_function_stack() or \
            torch.autograd._profiler_enabled():
        return False
    if torch._C._dispatch_tls_local_include_set().raw_repr() not in _NO_MODE or \
            torch.autograd.forward_ad._current_level >= 0:
        return False
    wants_gradients = torch.is_grad_enabled()
    for x in tensors:
        if type(x) not in _TENSORS or torch._C._dispatch_keys(x).raw_repr() not in _PLAIN or \
                (wants_gradients and x.requires_grad):
            return False
    return True


def _constant(value, name):
    """A number of the call, of which there is no gradient."""
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(f"{name}: requires a gradient, and there is none of it; give {name}.detach(), or multiply "
                              "query by what is to be learned")
    return number(value, name)


def attention(query: Tensor, key: Tensor, value: Tensor, *, mask: Optional[Tensor] = None,
              bias: Optional[Tensor] = None, causal: Optional[str] = None, alignment: Optional[str] = None,
              window: Any = None, scale: Optional[float] = None, softcap: Optional[float] = None,
              slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None, key_lengths: Optional[Tensor] = None,
              return_lse: bool = False, allow_rounded_weights: bool = False,
              allow_tf32: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """clattn.attention as a differentiable operator, whole in torch.compile.

    Shapes and meanings are those of clattn.attention, with all four axes. Gradients: query, key, value, bias, slopes,
    sinks. lse has none.
    """
    left, right = window_of(window)
    scale, softcap = (None if x is None else _constant(x, name) for x, name in ((scale, "scale"), (softcap, "softcap")))
    tensors = query, key, value, mask, bias, slopes, sinks, key_lengths
    said = causal or "", alignment or "", left, right, softcap or 0.0, allow_rounded_weights, allow_tf32
    given = [x for x in tensors if x is not None]
    if _is_plain(given):
        out, lse = _compute(*tensors, said, scale)
    else:
        refuse_tangents(query=query, key=key, value=value, bias=bias, slopes=slopes, sinks=sinks)
        out, lse = _operator(*tensors, *said[:4], scale, *said[4:])
    return (out, lse) if return_lse else out
