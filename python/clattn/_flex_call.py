"""A call of flex_attention as the library has it: the text of its functions, what that loads, the kernels' run, and
gradients."""
from collections import OrderedDict
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._arrays import View, torch_view
from ._attention import call_of, run
from ._code import code_fields, code_options
from ._context import default_context
from ._errors import InvalidArgument, Unsupported
from ._flex_blocks import Blocks
from ._flex_captured import Captured, gradients_of_captured
from ._flex_text import Writer
from ._flex_trace import Traced, slope_of, told, trace
from ._gradients import run_backward
from ._prepared import Field
from ._problem import KEPT, Options, options_of
from ._torch_calls import count, outputs, served, views
from ._torch_operator import like

SCORE, MASK, SLOPE = "clattn_score", "clattn_mask", "clattn_score_slope"
MASKS_LEARN_NOTHING = ("flex_attention: has no gradients of what mask_mod captures, which says yes or no; give it "
                       "detached")


class Asked(NamedTuple):
    """A call beside its query, key and value."""

    functions: Dict[str, Callable[..., Any]]  # SCORE and MASK, where they are given
    told: Dict[str, Tuple[Any, List[Tensor]]]  # what tells each apart or None, and the tensors that it captures
    blocks: Optional[Blocks]
    scale: Optional[float]


def asked_of(score_mod: Optional[Callable[..., Any]], mask_mod: Optional[Callable[..., Any]],
             blocks: Optional[Blocks], scale: Optional[float]) -> Asked:
    """What is asked by functions of Python's."""
    functions = {name: function for name, function in ((SCORE, score_mod), (MASK, mask_mod)) if function is not None}
    return Asked(functions, {name: told(function) for name, function in functions.items()}, blocks, scale)


class Text(NamedTuple):
    """What both functions of a call are written as."""

    traced: Dict[str, Traced]  # by the function's name
    writer: Writer
    of_node: Dict[Any, str]  # whose function a node is of


_texts: "OrderedDict[Any, Text]" = OrderedDict()


def _kinds(name: str, dtype: torch.dtype) -> Tuple[torch.dtype, ...]:
    whole = (torch.int32,) * 4
    return whole if name == MASK else (dtype, *whole)


def _write(functions: Dict[str, Callable[..., Any]], found: Dict[str, Tuple[Any, List[Tensor]]], dtype: torch.dtype,
           lengths: Dict[str, int]) -> Text:
    writer, traced, of_node = Writer(dtype == torch.float64, lengths), {}, {}
    for name, function in functions.items():
        key, slots = found[name]
        said = "mask_mod" if name == MASK else "score_mod"
        traced[name] = trace(function, said, slots, _kinds(name, dtype), key is not None)
        for node, slot in traced[name].slots.items():
            node.meta["captured"] = said, slot
        of_node.update(dict.fromkeys(traced[name].hosted, name))
        writer.function(name, traced[name].graph, traced[name].hosted)
    return Text(traced, writer, of_node)


def _text(asked: Asked, dtype: torch.dtype, lengths: Dict[str, int],
          has_slope: bool) -> Tuple[Text, Dict[str, List[Tensor]]]:
    """The text, written now or before, and the tensors that each function captured. has_slope: with the derivative of
    the score too, which gradients need."""
    functions, found = dict(asked.functions), dict(asked.told)
    if has_slope and SCORE in functions:
        functions[SLOPE], found[SLOPE] = slope_of(functions[SCORE]), found[SCORE]
    slots = {name: tensors for name, (_, tensors) in found.items()}
    key = tuple([(name, key) for name, (key, _) in found.items()]), dtype, tuple(lengths.values())
    if all(told_by is not None for told_by, _ in found.values()):
        known = _texts.get(key)
        if known is not None:
            return known, slots
    text = _write(functions, found, dtype, lengths)
    if all(x.is_kept for x in text.traced.values()):
        _texts[key] = text
        while len(_texts) > KEPT:
            _texts.popitem(last=False)
    return text, slots


# ---- what the text loads ----

def _stored(tensor: Tensor, is_float64: bool) -> Tensor:
    """A captured tensor as the library loads it: dense, of a type that it has."""
    if tensor.device.type != "cpu":
        raise InvalidArgument(f"a captured tensor on {tensor.device}: must be on the CPU")
    if tensor.dtype in (torch.int64, torch.int16, torch.int8):
        narrow = tensor.to(torch.int32)
        if tensor.dtype == torch.int64 and not torch.equal(narrow.to(torch.int64), tensor):
            raise Unsupported("a captured tensor of int64: has numbers beyond 32 bits")
        tensor = narrow
    elif tensor.dtype == torch.float64 and not is_float64:
        tensor = tensor.float()
    elif tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8,
                              torch.bool):
        raise Unsupported(f"a captured tensor of {tensor.dtype}: has no element type in the text")
    # of one without elements nothing is loaded, and the library takes none
    return tensor.contiguous().view(-1) if tensor.numel() else tensor.new_zeros(1)


def _whole_part(whole: int, part: str) -> float:
    """A half of a whole number of 32 bits as high * 65536 + low, each of which a float has exactly."""
    if not -2**31 <= whole < 2**31:
        raise Unsupported(f"a captured number {whole}: must fit 32 bits")
    return float(whole >> 16 if part == "high" else whole & 0xffff)


def _given(text: Text, slots: Dict[str, List[Tensor]]) -> Tuple[List[Tensor], List[float]]:
    """The text's tensors and scalars in this call."""
    known: Dict[Any, Tensor] = {}

    def host(node: Any) -> Tensor:
        name = text.of_node[node]
        return text.traced[name].host(node, slots[name], known)

    writer = text.writer
    tensors = [_stored(host(of), writer.is_float64) for of in writer.tensors]
    scalars = [float(of) if isinstance(of, int) else host(of).item() if not part else
               _whole_part(int(host(of).item()), part) for of, part in writer.scalars]
    return tensors, scalars


# ---- the call ----

class Ready(NamedTuple):
    """What a text loads in a call, the mask of blocks, and how the library is told."""

    tensors: List[Tensor]
    blocks: Optional[Tensor]  # [batch, heads, blocks of rows, blocks of keys]
    scalars: List[float]
    options: Options
    scale: Optional[float]


def _real(query: Tensor) -> torch.dtype:
    """What logits are."""
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def prepare(query: Tensor, key: Tensor, asked: Asked, has_slope: bool) -> Tuple[Ready, Text, Dict[str, List[Tensor]]]:
    lengths = {"b": query.shape[0], "h": query.shape[1], "i": query.shape[2], "j": key.shape[2]}
    text, slots = _text(asked, _real(query), lengths, has_slope)
    tensors, scalars = _given(text, slots)
    writer, options, blocks = text.writer, options_of(), None
    if asked.blocks is not None:
        given, rows, keys = asked.blocks
        blocks = given[:, :, :-(-query.shape[2] // rows), :-(-key.shape[2] // keys)].expand(*query.shape[:2], -1, -1)
        options += ("block_mask_rows", rows), ("block_mask_keys", keys)
    if writer.functions:
        options += code_options(writer.source, writer.functions, [f"tensor_{i}" for i in range(len(tensors))],
                                [torch_view(x) for x in tensors], [f"scalar_{i}" for i in range(len(scalars))])
    return Ready(tensors, blocks, scalars, options, asked.scale), text, slots


def _call(q: View, k: View, ready: Ready) -> Any:
    call = call_of(k.shape[2], ready.scale)
    for i, given in enumerate(ready.scalars):
        call.code_scalars[i] = given
    return call


def _fields(ready: Ready) -> List[Field]:
    fields = code_fields([torch_view(x) for x in ready.tensors])
    return fields if ready.blocks is None else [*fields, ("block_mask", torch_view(ready.blocks), (0, 1, 2, 3))]


def compute(query: Tensor, key: Tensor, value: Tensor, ready: Ready, has_lse: bool) -> List[Tensor]:
    """[out], or [out, lse]."""
    q, k, v = views(query, key, value)
    results = [like(query, value.shape[3])]
    if has_lse:
        results.append(query.new_empty(query.shape[:3], dtype=torch.float32))
    run(default_context(), q, k, v, _fields(ready), _call(q, k, ready), ready.options, outputs(results))
    count(served, "flex_attention")
    return results


class Loss(NamedTuple):
    """What gradients begin with."""

    out: Tensor
    lse: Tensor
    grad_out: Optional[Tensor]
    grad_lse: Optional[Tensor]


def gradients(query: Tensor, key: Tensor, value: Tensor, ready: Ready, of: Loss, captured: Optional[Captured],
              learned: Sequence[Tensor]) -> List[Tensor]:
    """Those of query, key and value, and of each tensor to learn."""
    grad_out = torch.zeros_like(of.out) if of.grad_out is None else of.grad_out
    q, k, v = views(query, key, value)
    found = [torch.empty(x.shape, dtype=x.dtype) for x in (query, key, value)]
    fields = _fields(ready)
    if captured is not None and learned:  # the gradient of a bias of 0 is that of each logit
        shape, real = (*query.shape[:3], key.shape[2]), _real(query)
        fields.append(("bias", torch_view(torch.zeros((), dtype=real).expand(shape)), (0, 1, 2, 3)))
        found.append(torch.empty(shape, dtype=real))
    run_backward(default_context(), q, k, v, fields, _call(q, k, ready), ready.options, torch_view(of.out),
                 torch_view(of.lse), torch_view(grad_out),
                 dict(zip(("dquery", "dkey", "dvalue", "dbias"), map(torch_view, found))),
                 None if of.grad_lse is None else torch_view(of.grad_lse))
    count(served, "flex_attention, backward")
    if captured is None or not learned:
        return found
    return found[:3] + gradients_of_captured(captured, learned, query, key, ready.scale, found[3])
