"""flex_attention within a graph of torch.compile: an operator of PyTorch's that names its functions.

Dynamo makes a graph of each function as it does for torch.nn.attention.flex_attention, and hands it, with the tensors
that it captures, to what is called in that one's place: attend_in_graph's operator of higher order. That knows each
graph by a hash of what it says, and calls the operator clattn::flex_attention with the hashes. So what comes after
Dynamo sees an operator of tensors, numbers and a string.

What the operator declines in the forward pass is an error, or, by enable(flex=True), PyTorch's own function computes
it eagerly; that has no gradients on CPUs.
"""
import hashlib
import io
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator

from . import _torch_flex_own
from ._errors import Error, Unsupported
from ._flex_blocks import Blocks, Lists, blocks_of, fitting
from ._flex_call import MASK, MASKS_LEARN_NOTHING, SCORE, Asked, Loss, asked_of, compute, gradients, prepare
from ._flex_captured import Captured, captured_of
from ._torch_calls import count, declined, tell_of_spinning_threads, views
from ._torch_flex_eager import attend
from ._torch_operator import like


class _Function(NamedTuple):
    """A score_mod or a mask_mod as Dynamo has it."""

    module: Any  # its graph: of the pair, then of what it captures
    captures: Tuple[Tuple[bool, int], ...]  # whether each is a tensor, and its place among the call's


class _Functions(NamedTuple):
    """Those of a call."""

    of: Dict[str, _Function]
    may_decline: bool  # to PyTorch's own


_functions: Dict[str, _Functions] = {}  # of each call in a graph, by its hash


def _bytes_of(module: Any) -> bytes:
    """What tells a graph apart: its code, and that and the tensors of what it calls."""
    found = io.BytesIO()
    for name, part in module.named_modules():
        found.write(f"{name}: {getattr(part, 'code', repr(part))}\n".encode())
    torch.save({name: x.detach() for name, x in [*module.named_parameters(), *module.named_buffers()]}, found)
    return found.getvalue()


def _known_as(functions: _Functions) -> str:
    said = hashlib.sha256(f"{functions.may_decline}\n".encode())
    for name, function in functions.of.items():
        said.update(f"{name} {function.captures}\n".encode() + _bytes_of(function.module))
    _functions[said.hexdigest()] = functions
    return said.hexdigest()


# ---- the operator ----

class _Call(NamedTuple):
    """Its arguments."""

    query: Tensor
    key: Tensor
    value: Tensor
    captured: List[Tensor]  # by both functions
    numbers: List[int]  # captured whole ones
    lists: List[Tensor]  # of the BlockMask, or none
    sizes: List[int]  # rows and keys of its blocks, and in all
    functions: str
    scale: Optional[float]


def _blocks(lists: Sequence[Tensor], sizes: Sequence[int], query: Tensor, key: Tensor,
            has_mask: bool) -> Optional[Blocks]:
    if not lists:
        return None
    of = Lists(lists, (sizes[0], sizes[1]), (sizes[2], sizes[3]))
    return fitting(of, blocks_of(of), query, key, has_mask)


def _known(of: _Call) -> _Functions:
    if of.functions not in _functions:
        raise Unsupported(f"flex_attention: the functions {of.functions} are of another process; compile the model in "
                          "this one")
    return _functions[of.functions]


def _given(of: _Call, function: _Function) -> List[Any]:
    """What it captures, in this call."""
    return [of.captured[at] if is_tensor else of.numbers[at] for is_tensor, at in function.captures]


def _functions_of(of: _Call) -> Dict[str, Callable[..., Any]]:
    """As functions of a pair alone."""
    return {name: lambda *pair, module=function.module, given=_given(of, function): module(*pair, *given)
            for name, function in _known(of).of.items()}


def _asked(of: _Call) -> Asked:
    told: Dict[str, Tuple[Any, List[Tensor]]] = {}
    for name, function in _known(of).of.items():
        given = _given(of, function)
        slots = [x for x in given if isinstance(x, Tensor)]
        told[name] = (of.functions, name, tuple(of.numbers), torch.get_default_dtype(),
                      *[(x.dtype, x.shape, x.stride()) for x in slots]), slots
    functions = _functions_of(of)
    return Asked(functions, told, _blocks(of.lists, of.sizes, of.query, of.key, MASK in functions), of.scale)


def _call_of(arguments: Sequence[Any]) -> _Call:
    """A tensor that a graph gives twice, as it does where two were computed alike, is two: each has its gradient."""
    of = _Call(*arguments)
    return of._replace(captured=[x.detach() for x in of.captured])


def _forward(*arguments: Any) -> Tuple[Tensor, Tensor]:
    of = _call_of(arguments)
    tell_of_spinning_threads()
    try:
        views(*of[:3])
        out, lse = compute(*of[:3], prepare(of.query, of.key, _asked(of), False)[0], True)
        return out, lse
    except Error as error:
        if not _known(of).may_decline:
            raise
        count(declined, str(error))
    functions = _functions_of(of)
    out, lse = _torch_flex_own.attend(*of[:3], functions.get(SCORE), functions.get(MASK), of.lists, of.sizes, of.scale)
    return like(of.query, of.value.shape[3]).copy_(out), lse.float()


def _forward_fake(*arguments: Any) -> Tuple[Tensor, Tensor]:
    of = _Call(*arguments)
    return like(of.query, of.value.shape[3]), of.query.new_empty(of.query.shape[:3], dtype=torch.float32)


def _backward(grad_out: Optional[Tensor], grad_lse: Optional[Tensor], out: Tensor, lse: Tensor,
              wanted: Sequence[bool], *arguments: Any) -> List[Tensor]:
    """Gradients of query, key and value, and of each captured tensor; empty ones where none is wanted."""
    of = _call_of(arguments)
    wanted_ones = [x for x, is_wanted in zip(of.captured, wanted) if is_wanted]
    ready, text, slots = prepare(of.query, of.key, _asked(of), True)
    captured: Optional[Captured] = None
    learned: List[Tensor] = []
    if SCORE in text.traced:
        captured, learned = captured_of(text.traced[SCORE], slots[SCORE],
                                        lambda x: any(x is other for other in wanted_ones))
    found = gradients(*of[:3], ready, Loss(out, lse, grad_out, grad_lse), captured, learned)
    for tensor, is_wanted in zip(of.captured, wanted):
        place = next((n for n, known in enumerate(learned) if known is tensor), None)
        found.append(found[3 + place] if place is not None else
                     torch.zeros_like(tensor) if is_wanted else tensor.new_empty(0))
    return found[:3] + found[3 + len(learned):]


def _backward_fake(grad_out: Optional[Tensor], grad_lse: Optional[Tensor], out: Tensor, lse: Tensor,
                   wanted: Sequence[bool], *arguments: Any) -> List[Tensor]:
    of = _Call(*arguments)
    return [x.new_empty(x.shape) for x in of[:3]] + \
        [x.new_empty(x.shape if is_wanted else (0,)) for x, is_wanted in zip(of.captured, wanted)]


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    of = _Call(*inputs)
    ctx.save_for_backward(*of[:3], *output, *of.captured, *of.lists)
    ctx.said, ctx.captured = (of.numbers, of.sizes, of.functions, of.scale), len(of.captured)
    ctx.set_materialize_grads(False)


def _derivative(ctx: Any, grad_out: Optional[Tensor], grad_lse: Optional[Tensor]) -> Tuple[Any, ...]:
    query, key, value, out, lse, *others = ctx.saved_tensors
    count, (numbers, sizes, functions, scale) = ctx.captured, ctx.said
    wanted = [bool(x) for x in ctx.needs_input_grad[3]]
    of = _Call(query, key, value, others[:count], numbers, others[count:], sizes, functions, scale)
    found: List[Optional[Tensor]] = [None] * (3 + count)
    if grad_out is not None or grad_lse is not None:
        found = list(_backward_operator(grad_out, grad_lse, out, lse, wanted, *of))
    # PyTorch takes numbers for one argument, and none for an empty list
    return (*found[:3], [x if is_wanted else None for x, is_wanted in zip(found[3:], wanted)],
            of.numbers and None, [None] * len(of.lists), of.sizes and None, None, None)


_INPUTS = ("Tensor query, Tensor key, Tensor value, Tensor[] captured, SymInt[] numbers, Tensor[] lists, "
           "SymInt[] sizes, str functions, float? scale")
_operator: Any = torch.library.custom_op("clattn::flex_attention", _forward, mutates_args=(), device_types="cpu",
                                         schema=f"({_INPUTS}) -> (Tensor, Tensor)")
_backward_operator: Any = torch.library.custom_op(
    "clattn::flex_attention_backward", _backward, mutates_args=(), device_types="cpu",
    schema=f"(Tensor? grad_out, Tensor? grad_lse, Tensor out, Tensor lse, bool[] wanted, {_INPUTS}) -> Tensor[]")
_operator.register_fake(_forward_fake)
_backward_operator.register_fake(_backward_fake)
_operator.register_autograd(_derivative, setup_context=_setup)


# ---- what Dynamo meets ----

@torch.compiler.disable  # type: ignore[untyped-decorator]
def _eager(query: Tensor, key: Tensor, value: Tensor, functions: Tuple[Any, Any], lists: Sequence[Tensor],
           sizes: Sequence[int], scale: Optional[float]) -> Tuple[Tensor, Tensor]:
    blocks = _blocks(lists, sizes, query, key, functions[1] is not None)
    out, lse = attend(query, key, value, asked_of(*functions, blocks, scale), True)
    return out, lse


class _HigherOrder(HigherOrderOperator):
    """The operator of functions, which Dynamo makes graphs of, and which is the other operator at once."""

    def __init__(self) -> None:
        super().__init__("clattn_flex_attention")  # type: ignore[no-untyped-call]

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, score: Any, mask: Tuple[Any, ...],
                 scale: Optional[float], has: Dict[str, bool], of_score: Sequence[Any] = (),
                 of_mask: Sequence[Any] = ()) -> Tuple[Tensor, Tensor]:
        *given, mask_mod = mask
        lists = [x for x in given if isinstance(x, Tensor)]
        sizes = [x for x in given if x is not None and not isinstance(x, Tensor)]
        if not isinstance(score, torch.fx.GraphModule):  # Dynamo made no graph, and the call is eager
            given_functions = score if has[SCORE] else None, mask_mod if has[MASK] else None
            eager: Tuple[Tensor, Tensor] = _eager(query, key, value, given_functions, lists, sizes, scale)
            return eager
        captured: List[Tensor] = []
        numbers: List[int] = []
        functions: Dict[str, _Function] = {}
        for name, module, captures in ((SCORE, score, of_score), (MASK, mask_mod, of_mask)):
            if has[name]:
                functions[name] = _Function(module, tuple([_place(x, captured, numbers) for x in captures]))
        if has[MASK] and torch.is_grad_enabled() and \
                any(isinstance(x, Tensor) and x.requires_grad for x in of_mask):
            raise Unsupported(MASKS_LEARN_NOTHING)
        found: Tuple[Tensor, Tensor] = _operator(query, key, value, captured, numbers, lists, sizes,
                                                 _known_as(_Functions(functions, has["may_decline"])), scale)
        return found


def _place(x: Any, captured: List[Tensor], numbers: List[int]) -> Tuple[bool, int]:
    """Where it is, now. A number that is not whole is in a tensor without axes, so that another compiles nothing."""
    if isinstance(x, (float, torch.SymFloat)):
        x = torch.scalar_tensor(x, dtype=torch.float64, device="cpu")
    if not isinstance(x, Tensor):
        numbers.append(x)
        return False, len(numbers) - 1
    for n, known in enumerate(captured):
        if known is x:
            return True, n
    captured.append(x)
    return True, len(captured) - 1


_higher_order: Any = _HigherOrder()


def _tell_dynamo() -> bool:
    """Whether this PyTorch's Dynamo makes graphs of functions for us as it does for its own flex_attention; where it
    does not, torch.compile breaks its graph at ours. What is called there is Dynamo's own, and may mean something else
    in versions before the first that was tried."""
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15):
        return False
    try:
        from torch._dynamo.variables import higher_order_ops as known
        known._hop_name_to_variable_class[_higher_order.__name__] = known.FlexAttentionHigherOrderVariable
    except (ImportError, AttributeError):
        return False
    return True


is_known_to_dynamo = _tell_dynamo()


def _the_score(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    return score


def _all_keys(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    return b == b


def attend_in_graph(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]],
                    block_mask: Any, scale: Optional[float], may_decline: bool) -> Tuple[Tensor, Tensor]:
    """(out, lse), where Dynamo looks on."""
    from torch.nn.attention.flex_attention import noop_mask
    lists: Tuple[Any, ...] = ()
    sizes: Tuple[int, ...] = ()
    mask_mod: Any = noop_mask
    if block_mask is not None:
        lists = block_mask.kv_num_blocks, block_mask.kv_indices, block_mask.full_kv_num_blocks, \
            block_mask.full_kv_indices
        sizes = block_mask.BLOCK_SIZE[0], block_mask.BLOCK_SIZE[1], block_mask.seq_lengths[0], \
            block_mask.seq_lengths[1]
        mask_mod = block_mask.mask_mod
    has_mask = mask_mod is not noop_mask
    found: Tuple[Tensor, Tensor] = _higher_order(
        query, key, value, score_mod if score_mod is not None else _the_score,
        (*lists, *sizes, mask_mod if has_mask else _all_keys), scale,
        {SCORE: score_mod is not None, MASK: has_mask, "may_decline": may_decline})
    return found
