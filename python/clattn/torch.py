"""clattn in PyTorch, on the CPU.

    clattn.torch.enable()       every scaled_dot_product_attention on the CPU, training too, until disable(); the same
                                is torch.nn.attention.activate_flash_attention_impl("clattn") after the import
    clattn.torch.attention()    all that clattn has, with gradients, also in torch.compile
    clattn.torch.report()       how many calls were served, and why others went to PyTorch's own kernel
"""
from typing import Any, List, Optional, Sequence, Tuple, Union

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from ._arrays import View, torch_view
from ._attention import call_of, run
from ._context import default_context
from ._derivatives import has_tangent
from ._errors import InvalidArgument, Unsupported
from ._fields import broadcast, optional_fields
from ._gradients import run_backward
from ._prepared import Field, Prepared
from ._problem import Options, number, options_of, refuse_words, whole, window_of
from ._torch_calls import computed, count, outputs, report, served, views
from ._torch_dispatch import is_plain
from ._torch_formula import formula
from ._torch_sdpa import disable, enable, is_enabled

__all__ = ["enable", "disable", "is_enabled", "attention", "report"]


def _options(causal: str, alignment: str, left: int, right: int, softcap: float, dropout: float, rounded: bool,
             tf32: bool) -> Options:
    return options_of(causal or None, alignment or None, window=(left, right), softcap=softcap, dropout=dropout,
                      allow_rounded_weights=rounded, allow_tf32=tf32)


def _value(scale: Union[None, float, Tensor]) -> Optional[float]:
    return scale.item() if isinstance(scale, Tensor) else scale


def _call(query: View, key: View, scale: Union[None, float, Tensor], seed: Optional[Tensor]) -> Any:
    return call_of(query, key, _value(scale), 0 if seed is None else int(seed.item()))


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
             sinks: Optional[Tensor], key_lengths: Optional[Tensor], scale: Union[None, float, Tensor],
             seed: Optional[Tensor], said: Any, has_lse: bool) -> List[Tensor]:
    """[out], or [out, lse]; `said`: the arguments of _options."""
    def first() -> Tuple[List[Tensor], Prepared, Any]:
        q, k, v = views(query, key, value)
        results = [_like(query, value.shape[3])]
        if has_lse:
            results.append(query.new_empty(query.shape[:3], dtype=torch.float32))
        call = _call(q, k, scale, seed)
        prepared = run(default_context(), q, k, v, _fields(query, key, mask, bias, slopes, sinks, key_lengths), call,
                       _options(*said), outputs(results))
        return results, prepared, call

    if slopes is sinks is key_lengths is seed is None:
        found = computed([x for x in (query, key, value, mask, bias) if x is not None],
                         (mask is None, has_lse, _value(scale), *said), first)
    else:  # they go to the library in another form, which is made for each call
        found = first()[0]
    count(served, "attention")
    return found


@torch.library.custom_op("clattn::attention", mutates_args=(), device_types="cpu")
def _operator(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
              slopes: Optional[Tensor], sinks: Optional[Tensor], key_lengths: Optional[Tensor], scale: Optional[Tensor],
              seed: Optional[Tensor], causal: str, alignment: str, window_left: int, window_right: int, softcap: float,
              dropout: float, rounded: bool, tf32: bool) -> Tuple[Tensor, Tensor]:
    out, lse = _compute(query, key, value, mask, bias, slopes, sinks, key_lengths, scale, seed,
                        (causal, alignment, window_left, window_right, softcap, dropout, rounded, tf32), True)
    return out, lse


def _fake(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tuple[Tensor, Tensor]:
    """Results of the operator, without numbers."""
    return _like(query, value.shape[3]), query.new_empty(query.shape[:3], dtype=torch.float32)


_OPTIONAL = "dbias", "dslopes", "dsinks", "dscale"  # gradients that are computed where they are wanted


def _kind_of(query: Tensor) -> torch.dtype:
    """The type of numbers of which a head has one."""
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _new_gradients(query: Tensor, likes: Sequence[Optional[Tensor]], wanted: Sequence[bool]) -> List[Tensor]:
    """Memory for the gradients of _OPTIONAL: as large as what they are of, or empty."""
    found = []
    for name, like, is_wanted in zip(_OPTIONAL, likes, wanted):
        kind = like.dtype if like is not None and name == "dbias" and is_wanted else _kind_of(query)
        found.append(query.new_empty(like.shape if like is not None and is_wanted else (0,), dtype=kind))
    return found


@torch.library.custom_op("clattn::attention_backward", mutates_args=(), device_types="cpu")
def _backward_operator(grad_out: Tensor, grad_lse: Optional[Tensor], query: Tensor, key: Tensor, value: Tensor, out: Tensor,
                       lse: Tensor, mask: Optional[Tensor], bias: Optional[Tensor], slopes: Optional[Tensor],
                       sinks: Optional[Tensor], key_lengths: Optional[Tensor], scale: Optional[Tensor],
                       seed: Optional[Tensor], causal: str, alignment: str, window_left: int, window_right: int,
                       softcap: float, dropout: float, rounded: bool, tf32: bool, of_bias: bool, of_slopes: bool,
                       of_sinks: bool, of_scale: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    q, k, v = views(query, key, value, floating=("query", "key", "value"))
    batch, heads, rows, _ = q.shape
    wanted = of_bias, of_slopes, of_sinks, of_scale
    grads = [_like(x, x.shape[3]) for x in (query, key, value)]
    gradients = dict(zip(("dquery", "dkey", "dvalue"), map(torch_view, grads)))
    optional = _new_gradients(query, (bias, slopes, sinks, scale), wanted)
    shapes = (batch, heads, rows, k.shape[2]), (batch, heads), (heads,), (1,)
    for name, grad, shape, is_wanted in zip(_OPTIONAL, optional, shapes, wanted):
        if is_wanted:
            gradients[name] = broadcast(grad, shape, name)
    run_backward(default_context(), q, k, v, _fields(query, key, mask, bias, slopes, sinks, key_lengths),
                 _call(q, k, scale, seed),
                 _options(causal, alignment, window_left, window_right, softcap, dropout, rounded, tf32),
                 torch_view(out), torch_view(lse), torch_view(grad_out), gradients,
                 None if grad_lse is None else torch_view(grad_lse))
    count(served, "attention, backward")
    return tuple([*grads, *optional])  # type: ignore[return-value]


def _backward_fake(grad_out: Tensor, grad_lse: Any, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor,
                   mask: Any, bias: Any, slopes: Any, sinks: Any, key_lengths: Any, scale: Any, *said: Any) -> Tuple[Tensor, ...]:
    return tuple([*(_like(x, x.shape[3]) for x in (query, key, value)),
                  *_new_gradients(query, (bias, slopes, sinks, scale), said[-4:])])


_INPUTS = 10  # tensors of the operator, before its numbers and words
_DIFFERENTIABLE = (0, 1, 2, 4, 5, 6, 8)  # of these


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rest = inputs[_INPUTS:]
    ctx.save_for_backward(*inputs[:_INPUTS], *output)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad_out: Optional[Tensor], grad_lse: Optional[Tensor]) -> Tuple[Any, ...]:
    *inputs, out, lse = ctx.saved_tensors
    query, key, value, mask, bias, slopes, sinks, key_lengths, scale, seed = inputs
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    needs = ctx.needs_input_grad
    wanted = needs[4], needs[5], needs[6], needs[8]
    found = _backward_operator(grad_out, grad_lse, query, key, value, out, lse, mask, bias, slopes, sinks, key_lengths, scale,
                               seed, *ctx.rest, *wanted)
    optional = [grad.to(like.dtype) if is_wanted else None
                for grad, like, is_wanted in zip(found[3:], (bias, slopes, sinks, scale), wanted)]
    return (*found[:3], None, *optional[:3], None, optional[3], None, *([None] * len(ctx.rest)))


def _setup_second(ctx: Any, inputs: Any, output: Any) -> None:
    grad_out, grad_lse, query, key, value, _, _, *rest = inputs
    ctx.save_for_backward(grad_out, grad_lse, query, key, value, *rest[:_INPUTS - 3])
    ctx.said, ctx.wanted = rest[_INPUTS - 3:-4], rest[-4:]
    ctx.set_materialize_grads(False)


def _second_gradients(ctx: Any, *grads: Optional[Tensor]) -> Tuple[Any, ...]:
    """Derivatives of gradients, by PyTorch's operators: out and lse are functions of the inputs there, so that those as
    inputs of the backward operator have none."""
    grad_out, grad_lse, *inputs = ctx.saved_tensors
    if ctx.said[5]:
        raise Unsupported("dropout: has no second derivatives here")
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() if x is not None and x.is_floating_point() else x for x in inputs]
        upper = [None if x is None else x.detach().requires_grad_() for x in (grad_out, grad_lse)]
        results: Any = formula(*[*leaves[:9], ctx.said])
        pairs = [(result, grad) for result, grad in zip(results, upper) if grad is not None]
        of = [i for i in (0, 1, 2) + tuple(at for at, is_wanted in zip((4, 5, 6, 8), ctx.wanted) if is_wanted)]
        first = torch.autograd.grad([x for x, _ in pairs], [leaves[i] for i in of], [x for _, x in pairs],
                                    create_graph=True, materialize_grads=True)
        at = [*range(3), *(3 + i for i, is_wanted in enumerate(ctx.wanted) if is_wanted)]
        given = [(x, grads[i]) for x, i in zip(first, at) if grads[i] is not None and x.requires_grad]
        variables = [x for x in (*upper, *(leaves[i] for i in _DIFFERENTIABLE)) if x is not None]
        second = torch.autograd.grad([x for x, _ in given], variables, [x for _, x in given], allow_unused=True)
    found = dict(zip(map(id, variables), second))
    of_inputs = [found.get(id(x)) if i in _DIFFERENTIABLE else None for i, x in enumerate(leaves)]
    return (found.get(id(upper[0])), None if upper[1] is None else found.get(id(upper[1])), *of_inputs[:3], None, None,
            *of_inputs[3:], *([None] * (len(ctx.said) + len(ctx.wanted))))


_operator.register_fake(_fake)
_backward_operator.register_fake(_backward_fake)
_operator.register_autograd(_gradients, setup_context=_setup_context)
_backward_operator.register_autograd(_second_gradients, setup_context=_setup_second)


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
        raise InvalidArgument(f"scale: a tensor of {scale.dtype}, shape {tuple(scale.shape)}; must be one real number on the CPU")
    return scale


def _seed_of(dropout: float, seed: Optional[int]) -> Optional[Tensor]:
    """The given one, or one that PyTorch's generator draws, so that torch.manual_seed decides."""
    if not dropout:
        return None
    return torch.randint(2**63 - 1, ()) if seed is None else torch.tensor(whole(seed, "seed"), dtype=torch.int64)


def attention(query: Tensor, key: Tensor, value: Tensor, *, mask: Optional[Tensor] = None,
              bias: Optional[Tensor] = None, causal: Optional[str] = None, alignment: Optional[str] = None,
              window: Any = None, scale: Union[None, float, Tensor] = None, softcap: Optional[float] = None,
              slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None, key_lengths: Optional[Tensor] = None,
              dropout: float = 0.0, seed: Optional[int] = None, return_lse: bool = False,
              allow_rounded_weights: bool = False, allow_tf32: bool = False,
              **others: Any) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """clattn.attention as a differentiable operator, whole in torch.compile.

    Shapes and meanings are those of clattn.attention, with all four axes. Gradients: of query, key, value, bias, slopes,
    sinks and of scale where that is a tensor; through out and lse. dropout draws by `seed`, or by a seed that PyTorch's
    generator draws. Derivatives in forward mode and second ones are computed by PyTorch's own operators, with all scores
    in memory, and not with dropout.
    """
    if others:
        refuse_words("attention", others)
    left, right = window_of(window)
    softcap = _constant(softcap, "softcap") if softcap is not None else 0.0
    dropout = _constant(dropout, "dropout")
    scale = _scale_of(scale)
    tensors = query, key, value, mask, bias, slopes, sinks, key_lengths, scale
    said = causal or "", alignment or "", left, right, softcap, dropout, allow_rounded_weights, allow_tf32
    seeds = _seed_of(dropout, seed)
    if is_plain([x for x in tensors if isinstance(x, Tensor)]):
        found: Any = _compute(*tensors, seeds, said, bool(return_lse))
    elif has_tangent(*tensors):
        if dropout:
            raise Unsupported("dropout: has no derivatives in forward mode here")
        views(*(forward_ad.unpack_dual(x).primal for x in (query, key, value)))
        _options(*said)
        found = formula(*tensors, said)
    else:
        if scale is not None and not isinstance(scale, Tensor):
            scale = torch.tensor(scale, dtype=torch.float64)
        found = _operator(*tensors[:8], scale, seeds, *said)
    return (found[0], found[1]) if return_lse else found[0]
