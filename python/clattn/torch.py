"""clattn in PyTorch, on the CPU.

    clattn.torch.enable()       every scaled_dot_product_attention on the CPU, training too, until disable(); the same
                                is torch.nn.attention.activate_flash_attention_impl("clattn") after the import
    clattn.torch.attention()    all that clattn has, with gradients, also in torch.compile
    clattn.torch.report()       how many calls were served, and why others went to PyTorch's own kernel
"""
from typing import Any, List, Optional, Tuple, Union

import torch
from torch import Tensor

from ._arrays import torch_view
from ._attention import broadcast, call_of, optional_fields, run
from ._context import default_context
from ._derivatives import refuse_tangents
from ._errors import InvalidArgument
from ._gradients import run_backward
from ._prepared import Field, Prepared
from ._problem import Options, number, options_of, window_of
from ._torch_calls import computed, count, outputs, report, served, views
from ._torch_dispatch import is_plain
from ._torch_sdpa import disable, enable, is_enabled

__all__ = ["enable", "disable", "is_enabled", "attention", "report"]


def _options(causal: str, alignment: str, left: int, right: int, softcap: float, rounded: bool, tf32: bool) -> Options:
    return options_of(causal or None, alignment or None, window=(left, right), softcap=softcap,
                      allow_rounded_weights=rounded, allow_tf32=tf32)


def _fields(query: Tensor, key: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], slopes: Optional[Tensor],
            sinks: Optional[Tensor], key_lengths: Optional[Tensor]) -> List[Field]:
    batch, heads, rows = query.shape[:3]
    return optional_fields((batch, heads, rows, key.shape[2]), batch, heads, mask, bias, slopes, sinks,
                           None if key_lengths is None else key_lengths.tolist(), None)


def _like(tensor: Tensor, columns: int) -> Tensor:
    """A new one with as many columns, with its rows beside each other in memory where the tensor's are, or its heads:
    models split heads from rows that lie together, and join them again."""
    batch, heads, rows, _ = tensor.shape
    if tensor.stride(1) < tensor.stride(2):
        return tensor.new_empty((batch, rows, heads, columns)).transpose(1, 2)
    return tensor.new_empty((batch, heads, rows, columns))


def _compute(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], slopes: Optional[Tensor],
             sinks: Optional[Tensor], key_lengths: Optional[Tensor], said: Any, scale: Optional[float],
             has_lse: bool) -> List[Tensor]:
    """[out], or [out, lse]; `said`: the arguments of _options."""
    def first() -> Tuple[List[Tensor], Prepared, Any]:
        q, k, v = views(query, key, value)
        results = [_like(query, value.shape[3])]
        if has_lse:
            results.append(query.new_empty(query.shape[:3], dtype=torch.float32))
        call = call_of(q, k, scale)
        prepared = run(default_context(), q, k, v, _fields(query, key, mask, bias, slopes, sinks, key_lengths), call,
                       _options(*said), outputs(results))
        return results, prepared, call

    if slopes is sinks is key_lengths is None:
        found = computed([x for x in (query, key, value, mask, bias) if x is not None],
                         (mask is None, has_lse, scale, *said), first)
    else:  # they go to the library in another form, which is made for each call
        found = first()[0]
    count(served, "attention")
    return found


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _operator(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
              slopes: Optional[Tensor], sinks: Optional[Tensor], key_lengths: Optional[Tensor], causal: str,
              alignment: str, window_left: int, window_right: int, scale: Optional[float], softcap: float,
              rounded: bool, tf32: bool) -> Tuple[Tensor, Tensor]:
    out, lse = _compute(query, key, value, mask, bias, slopes, sinks, key_lengths,
                        (causal, alignment, window_left, window_right, softcap, rounded, tf32), scale, True)
    return out, lse


def _fake(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tuple[Tensor, Tensor]:
    """Results of the operator, without numbers."""
    return _like(query, value.shape[3]), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward_operator(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor,
                       mask: Optional[Tensor], bias: Optional[Tensor], slopes: Optional[Tensor],
                       sinks: Optional[Tensor], key_lengths: Optional[Tensor], causal: str, alignment: str,
                       window_left: int, window_right: int, scale: Optional[float], softcap: float, rounded: bool,
                       tf32: bool, of_bias: bool, of_slopes: bool, of_sinks: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    q, k, v = views(query, key, value, floating=("query", "key", "value"))
    batch, heads, rows, _ = q.shape
    grads = [_like(x, x.shape[3]) for x in (query, key, value)]
    gradients = dict(zip(("dquery", "dkey", "dvalue"), map(torch_view, grads)))
    like: Any
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
    count(served, "attention, backward")
    return tuple(grads)  # type: ignore[return-value]


def _backward_fake(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, mask: Any,
                   bias: Any, slopes: Any, sinks: Any, *said: Any) -> Tuple[Tensor, ...]:
    of_bias, of_slopes, of_sinks = said[-3:]
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    none = (0,)
    return tuple([_like(x, x.shape[3]) for x in (query, key, value)] +
                 [bias.new_empty(bias.shape) if of_bias else query.new_empty(none, dtype=kind),
                  query.new_empty(slopes.shape if of_slopes else none, dtype=kind),
                  query.new_empty(sinks.shape if of_sinks else none, dtype=kind)])


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, mask, bias, slopes, sinks, key_lengths, *ctx.rest = inputs
    ctx.save_for_backward(query, key, value, *output, mask, bias, slopes, sinks, key_lengths)
    ctx.set_materialize_grads(True)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, grad_out: Tensor, _: Any) -> Tuple[Any, ...]:
    query, key, value, out, lse, mask, bias, slopes, sinks, key_lengths = ctx.saved_tensors
    wanted = ctx.needs_input_grad[4:7]
    dquery, dkey, dvalue, dbias, dslopes, dsinks = _backward_operator(
        grad_out, query, key, value, out, lse, mask, bias, slopes, sinks, key_lengths, *ctx.rest, *wanted)
    optional = [grad.to(like.dtype) if is_wanted else None
                for grad, like, is_wanted in zip((dbias, dslopes, dsinks), (bias, slopes, sinks), wanted)]
    return dquery, dkey, dvalue, None, *optional, *([None] * 9)


_operator.register_fake(_fake)
_backward_operator.register_fake(_backward_fake)
_operator.register_autograd(_gradients, setup_context=_setup_context)


def _constant(value: Any, name: str) -> Any:
    """A number of the call, of which there is no gradient."""
    if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
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
    if scale is not None:
        scale = _constant(scale, "scale")
    if softcap is not None:
        softcap = _constant(softcap, "softcap")
    tensors = query, key, value, mask, bias, slopes, sinks, key_lengths
    said = causal or "", alignment or "", left, right, softcap or 0.0, allow_rounded_weights, allow_tf32
    given = [x for x in tensors if x is not None]
    if is_plain(given):
        found = _compute(*tensors, said, scale, bool(return_lse))
    else:
        refuse_tangents(query=query, key=key, value=value, bias=bias, slopes=slopes, sinks=sinks)
        found = _operator(*tensors, *said[:4], scale, *said[4:])
    return (found[0], found[1]) if return_lse else found[0]
