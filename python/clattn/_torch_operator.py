"""The operators of clattn.torch.attention and of its gradients, and PyTorch's formulas for what comes after these."""
import functools
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ._arrays import Scales, torch_view
from ._attention import call_of, run
from ._context import default_context
from ._errors import Unsupported
from ._fields import WITH_GRADIENTS, broadcast, learned_shapes, optional_fields
from ._gradients import BothWays, run_backward
from ._prepared import Prepared
from ._problem import Options, options_of
from ._sequences import NAMES, Sequences, columns_of, sequences_of
from ._torch_calls import computed, count, four_axes, outputs, served
from ._torch_formula import formula


class Given(NamedTuple):
    """The operator's tensors, in its order."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Optional[Tensor] = None
    bias: Optional[Tensor] = None
    slopes: Optional[Tensor] = None
    sinks: Optional[Tensor] = None
    key_lengths: Optional[Tensor] = None
    scale: Union[None, float, Tensor] = None  # a float where the dispatcher is gone past
    seed: Optional[Tensor] = None
    offsets: Optional[Tensor] = None
    cu_query: Optional[Tensor] = None
    cu_key: Optional[Tensor] = None
    page_table: Optional[Tensor] = None
    page_starts: Optional[Tensor] = None
    row_low: Optional[Tensor] = None
    row_high: Optional[Tensor] = None
    key_scales: Optional[Tensor] = None
    value_scales: Optional[Tensor] = None
    key_zero_points: Optional[Tensor] = None
    value_zero_points: Optional[Tensor] = None


class Said(NamedTuple):
    """Its words and numbers, behind the tensors."""

    causal: str = ""
    alignment: str = ""
    window_left: int = -1
    window_right: int = -1
    softcap: float = 0.0
    dropout: float = 0.0
    always_visible_keys: int = 0
    rounded: bool = False
    tf32: bool = False
    key_type: str = ""
    value_type: str = ""
    key_tensor_scale: float = 1.0
    value_tensor_scale: float = 1.0


_DIFFERENTIABLE = tuple(map(Given._fields.index, ("query", "key", "value", *WITH_GRADIENTS)))
_IN_PLACE = {"query", "key", "value", "mask", "bias",
             "scale"}  # what goes to the library where it is; others a call makes
_NUMBERS = "key_lengths", "offsets", "cu_query", "cu_key", "page_starts"  # tensors that are read before a call
_COUNT, _WANTED = len(Given._fields), len(WITH_GRADIENTS)


def options(said: Said, has_offsets: bool) -> Options:
    """Those of the problem."""
    return options_of(said.causal or None, said.alignment or None, has_offsets, (said.window_left, said.window_right),
                      said.always_visible_keys, said.softcap, said.dropout, allow_rounded_weights=said.rounded,
                      allow_tf32=said.tf32)


def _scales_of(given: Given, said: Said, name: str) -> Optional[Scales]:
    """What lies beside the codes of keys or values."""
    scales = getattr(given, f"{name}_scales")
    return None if scales is None else Scales(scales, getattr(given, f"{name}_zero_points"),
                                              getattr(said, f"{name}_tensor_scale"))


def _call(given: Given, said: Said, floating: Sequence[str] = ("query",)) -> BothWays:
    q, k, v = four_axes(given.query, given.key, given.value, floating)
    numbers = {name: None if getattr(given, name) is None else getattr(given, name).tolist() for name in _NUMBERS}
    more = {**{name: getattr(given, name, getattr(said, name, None) or None) for name in NAMES},
            **{name: x for name, x in numbers.items() if name in NAMES},
            **{f"{name}_scales": _scales_of(given, said, name) for name in ("key", "value")}}
    of = sequences_of(q, k, v, numbers["key_lengths"], more)
    shape = of.batch, q.shape[1], of.rows, of.keys
    fields = of.fields + optional_fields(shape, q.type, {**given._asdict(), **numbers})
    scale = given.scale.item() if isinstance(given.scale, Tensor) else given.scale
    call = call_of(of.keys, scale, 0 if given.seed is None else int(given.seed.item()))
    return BothWays(of, shape, fields, call, options(said, given.offsets is not None) + of.options)


def like(tensor: Tensor, columns: int) -> Tensor:
    """A new one with as many columns, with its rows beside each other in memory where the tensor's are, or its heads:
    models split heads from rows that lie together, and join them again."""
    batch, heads, rows, _ = tensor.shape
    if tensor.stride(1) < tensor.stride(2):
        return tensor.new_empty((batch, rows, heads, columns)).transpose(1, 2)
    return tensor.new_empty((batch, heads, rows, columns))


def compute(given: Given, said: Said, has_lse: bool) -> List[Tensor]:
    """[out], or [out, lse]."""
    def first() -> Tuple[List[Tensor], Prepared, Any]:
        of, _, fields, call, own = _call(given, said)
        results = [like(given.query, of.value.shape[3])]
        if has_lse:
            results.append(given.query.new_empty(given.query.shape[:3], dtype=torch.float32))
        for result, number in zip(results if of.is_packed else (), (0.0, float("-inf"))):
            result.fill_(number)
        prepared = run(default_context(), of.query, of.key, of.value, fields, call, own, outputs(results))
        return results, prepared, call

    if all(x is None or name in _IN_PLACE for name, x in zip(Given._fields, given)):
        scale = given.scale.item() if isinstance(given.scale, Tensor) else given.scale
        found = computed([x for x in given[:5] if x is not None], (given.mask is None, has_lse, scale, *said), first)
    else:
        found = first()[0]
    count(served, "attention")
    return found


def _attention(*arguments: Any) -> Tuple[Tensor, Tensor]:
    out, lse = compute(Given(*arguments[:_COUNT]), Said(*arguments[_COUNT:]), True)
    return out, lse


def _fake(*arguments: Any) -> Tuple[Tensor, Tensor]:
    """Results of the operator, without numbers."""
    given, said = Given(*arguments[:_COUNT]), Said(*arguments[_COUNT:])
    return (like(given.query, columns_of(given.value.shape[3], said.value_type)),
            given.query.new_empty(given.query.shape[:3], dtype=torch.float32))


def _new_gradients(given: Given, wanted: Sequence[bool]) -> List[Tensor]:
    """Those in WITH_GRADIENTS: of the shapes of what they are of, or empty. Where a head has one number, that is of
    float32 or float64."""
    kind = torch.float64 if given.query.dtype == torch.float64 else torch.float32
    found = []
    for name, is_wanted in zip(WITH_GRADIENTS, wanted):
        of = getattr(given, name)
        found.append(given.query.new_empty(of.shape if is_wanted else (0,),
                                           dtype=of.dtype if is_wanted and name == "bias" else kind))
    return found


def backward(grad_out: Tensor, grad_lse: Optional[Tensor], out: Tensor, lse: Tensor,
             *arguments: Any) -> Tuple[Tensor, ...]:
    """Gradients of query, key, value and of those of WITH_GRADIENTS that the last arguments ask for."""
    given, said, wanted = Given(*arguments[:_COUNT]), Said(*arguments[_COUNT:-_WANTED]), arguments[-_WANTED:]
    of, shape, fields, call, own = _call(given, said, ("query", "key", "value"))
    grads = [like(x, x.shape[3]) for x in given[:3]]
    for grad in grads if of.is_packed else ():
        grad.zero_()
    gradients = dict(zip(("dquery", "dkey", "dvalue"), map(torch_view, grads)))
    learned = _new_gradients(given, wanted)
    full = learned_shapes(shape)
    for name, grad, is_wanted in zip(WITH_GRADIENTS, learned, wanted):
        if is_wanted:
            gradients[f"d{name}"] = broadcast(grad, full[name], f"d{name}")
    run_backward(default_context(), of.query, of.key, of.value, fields, call, own, torch_view(out), torch_view(lse),
                 torch_view(grad_out), gradients, None if grad_lse is None else torch_view(grad_lse))
    count(served, "attention, backward")
    return tuple([*grads, *learned])


def _backward_fake(grad_out: Tensor, grad_lse: Any, out: Tensor, lse: Tensor, *arguments: Any) -> Tuple[Tensor, ...]:
    given = Given(*arguments[:_COUNT])
    return tuple([*(like(x, x.shape[3]) for x in given[:3]), *_new_gradients(given, arguments[-_WANTED:])])


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.said = inputs[_COUNT:]
    ctx.save_for_backward(*inputs[:_COUNT], *output)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad_out: Optional[Tensor], grad_lse: Optional[Tensor]) -> Tuple[Any, ...]:
    *inputs, out, lse = ctx.saved_tensors
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    wanted = [ctx.needs_input_grad[at] for at in _DIFFERENTIABLE[3:]]
    found = _backward_operator(grad_out, grad_lse, out, lse, *inputs, *ctx.said, *wanted)
    every: List[Optional[Tensor]] = [None] * (_COUNT + len(ctx.said))
    for i, at in enumerate(_DIFFERENTIABLE):
        if i < 3 or wanted[i - 3]:
            every[at] = found[i].to(inputs[at].dtype)
    return tuple(every)


def _setup_second(ctx: Any, inputs: Any, output: Any) -> None:
    grad_out, grad_lse, _, _, *rest = inputs
    ctx.save_for_backward(grad_out, grad_lse, *rest[:_COUNT])
    ctx.said, ctx.wanted = Said(*rest[_COUNT:-_WANTED]), rest[-_WANTED:]
    ctx.set_materialize_grads(False)


def _second_gradients(ctx: Any, *grads: Optional[Tensor]) -> Tuple[Any, ...]:
    """Gradients of the gradients, by PyTorch's own operators: out and lse are functions of the inputs there, so that
    those as inputs of the backward operator have none."""
    grad_out, grad_lse, *inputs = ctx.saved_tensors
    if ctx.said.dropout:
        raise Unsupported("dropout: has no second derivatives here; compute them without dropout")
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() if x is not None and at in _DIFFERENTIABLE else x for at,
                  x in enumerate(inputs)]
        upper = [None if x is None else x.detach().requires_grad_() for x in (grad_out, grad_lse)]
        pairs = [(result, grad) for result, grad in zip(formula(Given(*leaves), ctx.said), upper) if grad is not None]
        of = [at for i, at in enumerate(_DIFFERENTIABLE) if i < 3 or ctx.wanted[i - 3]]
        first = torch.autograd.grad([x for x, _ in pairs], [leaves[at] for at in of], [x for _, x in pairs],
                                    create_graph=True, materialize_grads=True)
        places = [_DIFFERENTIABLE.index(at) for at in of]
        some = [(x, grads[i]) for x, i in zip(first, places) if grads[i] is not None and x.requires_grad]
        variables = [x for x in (*upper, *(leaves[at] for at in _DIFFERENTIABLE)) if x is not None]
        second = torch.autograd.grad([x for x, _ in some], variables, [x for _, x in some], allow_unused=True)
    found = dict(zip(map(id, variables), second))
    return (*(None if x is None else found.get(id(x)) for x in upper), None, None,
            *(found.get(id(x)) if at in _DIFFERENTIABLE else None for at, x in enumerate(leaves)),
            *([None] * (len(ctx.said) + len(ctx.wanted))))


# ---- as PyTorch knows them ----

_TENSORS = ", ".join(f"Tensor{'' if i < 3 else '?'} {name}" for i, name in enumerate(Given._fields))
_WORDS = ", ".join(f"{type(number).__name__} {name}" for name, number in Said._field_defaults.items())
_INPUTS = f"{_TENSORS}, {_WORDS}"

_custom = functools.partial(torch.library.custom_op, mutates_args=(), device_types="cpu")
operator: Any = _custom("clattn::attention", _attention, schema=f"({_INPUTS}) -> (Tensor, Tensor)")
_backward_operator: Any = _custom(
    "clattn::attention_backward", backward,
    schema=f"(Tensor grad_out, Tensor? grad_lse, Tensor out, Tensor lse, {_INPUTS}, "
           f"{', '.join(f'bool of_{name}' for name in WITH_GRADIENTS)}) -> ({', '.join(['Tensor'] * (3 + _WANTED))})")
operator.register_fake(_fake)
_backward_operator.register_fake(_backward_fake)
operator.register_autograd(_gradients, setup_context=_setup)
_backward_operator.register_autograd(_second_gradients, setup_context=_setup_second)
