"""clattn.torch.flex_attention: torch.nn.attention.flex_attention's functions as a text in the fused kernels."""
import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _library as lib
from ._arrays import View, torch_view
from ._attention import call_of, run
from ._code import code_fields, code_options
from ._context import default_context
from ._derivatives import has_tangent
from ._errors import InvalidArgument, InvalidShape, Unsupported
from ._flex_captured import Captured, captured_of, gradients_of_captured
from ._flex_text import Writer
from ._flex_trace import Traced, slope_of, told, trace
from ._gradients import run_backward
from ._prepared import Field
from ._problem import KEPT, Options, number, options_of
from ._torch_calls import count, outputs, served, tell_of_spinning_threads, views
from ._torch_operator import like

_SCORE, _MASK, _SLOPE = "clattn_score", "clattn_mask", "clattn_score_slope"


class Text(NamedTuple):
    """What both functions of a call are written as."""

    traced: Dict[str, Traced]  # by the function's name
    writer: Writer
    of_node: Dict[Any, str]  # whose function a node is of


_texts: "OrderedDict[Any, Text]" = OrderedDict()


def _kinds(name: str, dtype: torch.dtype) -> Tuple[torch.dtype, ...]:
    whole = (torch.int32,) * 4
    return whole if name == _MASK else (dtype, *whole)


def _write(functions: Dict[str, Callable[..., Any]], found: Dict[str, Tuple[Any, List[Tensor]]], dtype: torch.dtype,
           lengths: Dict[str, int]) -> Text:
    writer, traced, of_node = Writer(dtype == torch.float64, lengths), {}, {}
    for name, function in functions.items():
        key, slots = found[name]
        said = "mask_mod" if name == _MASK else "score_mod"
        traced[name] = trace(function, said, slots, _kinds(name, dtype), key is not None)
        for node, slot in traced[name].slots.items():
            node.meta["captured"] = said, slot
        of_node.update(dict.fromkeys(traced[name].hosted, name))
        writer.function(name, traced[name].graph, traced[name].hosted)
    return Text(traced, writer, of_node)


def _text(functions: Dict[str, Callable[..., Any]], dtype: torch.dtype, lengths: Dict[str, int],
          has_slope: bool) -> Tuple[Text, Dict[str, List[Tensor]]]:
    """The text, written now or before, and the tensors that each function captured. has_slope: with the derivative of
    the score too, which gradients need."""
    found = {name: told(function) for name, function in functions.items()}
    if has_slope and _SCORE in functions:
        functions = {**functions, _SLOPE: slope_of(functions[_SCORE])}
        found[_SLOPE] = found[_SCORE]
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
    return tensor.contiguous().view(-1)


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


# ---- the BlockMask ----

class _Blocks(NamedTuple):
    """A mask of blocks as the library has it: bytes [batch or 1, heads or 1, blocks of rows, blocks of keys]."""

    bytes: Tensor
    rows: int  # of a block
    keys: int


_EMPTY, _PARTIAL, _FULL = (int(x) for x in (lib.CLATTN_BLOCK_EMPTY, lib.CLATTN_BLOCK_PARTIAL, lib.CLATTN_BLOCK_FULL))
_blocks: "weakref.WeakKeyDictionary[Any, Tuple[Any, _Blocks]]" = weakref.WeakKeyDictionary()


def _listed(counts: Tensor, indices: Tensor) -> Tensor:
    """Which blocks of keys the lists of each row of blocks name."""
    named = torch.arange(indices.shape[-1]) < counts[..., None]
    where = torch.where(named, indices, indices.shape[-1]).long()
    return torch.zeros(*indices.shape[:-1], indices.shape[-1] + 1, dtype=torch.bool).scatter(-1, where, True)[..., :-1]


def _blocks_of(block_mask: Any) -> _Blocks:
    """The lists as bytes, made once for as long as they are what they were."""
    lists = [(block_mask.kv_num_blocks, block_mask.kv_indices)]
    if block_mask.full_kv_num_blocks is not None:
        lists.append((block_mask.full_kv_num_blocks, block_mask.full_kv_indices))
    made_of = [(x.data_ptr(), x._version) for pair in lists for x in pair]
    known = _blocks.get(block_mask)
    if known is not None and known[0] == made_of:
        return known[1]
    partial, *full = (_listed(*pair) for pair in lists)
    found = torch.where(partial, _PARTIAL, _EMPTY)
    for listed in full:
        found = torch.where(listed, _FULL, found)
    made = _Blocks(found.to(torch.uint8).contiguous(), *block_mask.BLOCK_SIZE)
    _blocks[block_mask] = made_of, made
    return made


def _of_block_mask(block_mask: Any, query: Tensor,
                   key: Tensor) -> Tuple[Optional[Callable[..., Any]], Optional[_Blocks]]:
    """(its mask_mod or None, its blocks or None where they say nothing). As in PyTorch's kernels, blocks that are not
    listed are not seen, whatever mask_mod says, and full ones are seen without asking it."""
    from torch.nn.attention.flex_attention import noop_mask
    rows, keys = block_mask.seq_lengths
    batch, heads = block_mask.kv_num_blocks.shape[:2]
    mask_mod = None if block_mask.mask_mod is noop_mask else block_mask.mask_mod
    if block_mask.kv_indices.device.type != "cpu":
        raise InvalidArgument(f"block_mask: is on {block_mask.kv_indices.device}; must be on the CPU")
    if batch not in (1, query.shape[0]) or heads not in (1, query.shape[1]):
        raise InvalidShape(f"block_mask: is of {batch} batch entries and {heads} heads; must be of 1 or "
                           f"{query.shape[0]}, and 1 or {query.shape[1]}")
    blocks = _blocks_of(block_mask)
    says_nothing = bool((blocks.bytes == _PARTIAL).all() if mask_mod else (blocks.bytes != _EMPTY).all())
    is_short = rows < query.shape[2] or keys < key.shape[2]
    if (rows, keys) != (query.shape[2], key.shape[2]) if mask_mod else is_short and not says_nothing:
        raise InvalidShape(f"block_mask: is of {rows} rows and {keys} keys; query has {query.shape[2]} and key "
                           f"{key.shape[2]}")
    return mask_mod, None if says_nothing else blocks


# ---- the call ----

class _Asked(NamedTuple):
    """A call beside its query, key and value: its functions, blocks and scale."""

    functions: Dict[str, Callable[..., Any]]
    blocks: Optional[_Blocks]
    scale: Optional[float]


class _Ready(NamedTuple):
    """What a text loads in a call, the mask of blocks, and how the library is told."""

    tensors: List[Tensor]
    blocks: Optional[Tensor]  # [batch, heads, blocks of rows, blocks of keys]
    scalars: List[float]
    options: Options


def _learned(text: Text, slots: Dict[str, List[Tensor]],
             every: List[Tensor]) -> Tuple[Optional[Captured], List[Tensor]]:
    """What score_mod captures, and of which of its tensors a gradient is wanted. Raises where there are no such
    derivatives: of what mask_mod captures, and in forward mode."""
    if has_tangent(*every, *[x for tensors in slots.values() for x in tensors]):
        raise Unsupported("flex_attention: has no derivatives in forward mode; give tensors without tangents")
    found = {name: captured_of(traced, slots[name]) for name, traced in text.traced.items()}
    if _MASK in found and found[_MASK][1]:
        raise Unsupported("flex_attention: has no gradients of what mask_mod captures, which says yes or no; give it "
                          "detached")
    return found.get(_SCORE, (None, []))


def _real(query: Tensor) -> torch.dtype:
    """What logits are."""
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _ready(query: Tensor, key: Tensor, asked: _Asked, has_slope: bool) -> Tuple[_Ready, Text, Dict[str, List[Tensor]]]:
    dtype = _real(query)
    lengths = {"b": query.shape[0], "h": query.shape[1], "i": query.shape[2], "j": key.shape[2]}
    text, slots = _text(asked.functions, dtype, lengths, has_slope)
    tensors, scalars = _given(text, slots)
    writer, options, blocks = text.writer, options_of(), None
    if asked.blocks is not None:
        given, rows, keys = asked.blocks
        blocks = given[:, :, :-(-query.shape[2] // rows), :-(-key.shape[2] // keys)].expand(*query.shape[:2], -1, -1)
        options += ("block_mask_rows", rows), ("block_mask_keys", keys)
    if writer.functions:
        options += code_options(writer.source, writer.functions, [f"tensor_{i}" for i in range(len(tensors))],
                                [torch_view(x) for x in tensors], [f"scalar_{i}" for i in range(len(scalars))])
    return _Ready(tensors, blocks, scalars, options), text, slots


def _call(q: View, k: View, scale: Optional[float], scalars: List[float]) -> Any:
    call = call_of(q, k, scale)
    for i, given in enumerate(scalars):
        call.code_scalars[i] = given
    return call


def _fields(tensors: List[Tensor], blocks: Optional[Tensor]) -> List[Field]:
    fields = code_fields([torch_view(x) for x in tensors])
    return fields if blocks is None else [*fields, ("block_mask", torch_view(blocks), (0, 1, 2, 3))]


def _compute(query: Tensor, key: Tensor, value: Tensor, ready: _Ready, scale: Optional[float],
             has_lse: bool) -> List[Tensor]:
    q, k, v = views(query, key, value)
    results = [like(query, value.shape[3])]
    if has_lse:
        results.append(query.new_empty(query.shape[:3], dtype=torch.float32))
    run(default_context(), q, k, v, _fields(ready.tensors, ready.blocks), _call(q, k, scale, ready.scalars),
        ready.options, outputs(results))
    count(served, "flex_attention")
    return results


class _Differentiable(torch.autograd.Function):
    """(out, lse), with gradients of query, key, value and what score_mod captures, by the text that has the score's
    slope too."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, ready: _Ready,
                scale: Optional[float], captured: Optional[Captured], *learned: Tensor) -> Tuple[Tensor, Tensor]:
        out, lse = _compute(query, key, value, ready, scale, True)
        ctx.save_for_backward(query, key, value, out, lse, ready.blocks, *learned, *ready.tensors)
        ctx.scalars, ctx.options, ctx.scale = ready.scalars, ready.options, scale
        ctx.captured, ctx.learned = captured, len(learned)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Optional[Tensor], grad_lse: Optional[Tensor]) -> Any:
        query, key, value, out, lse, blocks, *others = ctx.saved_tensors
        if grad_out is None and grad_lse is None:
            return (None,) * (6 + ctx.learned)
        learned, tensors = others[:ctx.learned], others[ctx.learned:]
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out
        q, k, v = views(query, key, value)
        gradients = [torch.empty(x.shape, dtype=x.dtype) for x in (query, key, value)]
        fields = _fields(tensors, blocks)
        if learned:  # the gradient of a bias of 0 is that of each logit
            shape, real = (*query.shape[:3], key.shape[2]), _real(query)
            fields.append(("bias", torch_view(torch.zeros((), dtype=real).expand(shape)), (0, 1, 2, 3)))
            gradients.append(torch.empty(shape, dtype=real))
        run_backward(default_context(), q, k, v, fields, _call(q, k, ctx.scale, ctx.scalars),
                     ctx.options, torch_view(out), torch_view(lse), torch_view(grad_out),
                     dict(zip(("dquery", "dkey", "dvalue", "dbias"), map(torch_view, gradients))),
                     None if grad_lse is None else torch_view(grad_lse))
        count(served, "flex_attention, backward")
        of_learned = gradients_of_captured(ctx.captured, learned, query, key, ctx.scale,
                                           gradients[3]) if learned else []
        return (*gradients[:3], None, None, None, *of_learned)


def _attend(query: Tensor, key: Tensor, value: Tensor, asked: _Asked, has_lse: bool) -> List[Tensor]:
    views(query, key, value)
    has_gradients = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    ready, text, slots = _ready(query, key, asked, has_gradients)
    captured, learned = _learned(text, slots, [query, key, value])
    if learned and not has_gradients:
        ready = _ready(query, key, asked, True)[0]
    if learned or has_gradients:
        return list(_Differentiable.apply(query, key, value, ready, asked.scale, captured, *learned))
    return _compute(query, key, value, ready, asked.scale, has_lse)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: Optional[Callable[..., Any]] = None,
                   block_mask: Any = None, scale: Optional[float] = None, enable_gqa: bool = False,
                   return_lse: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """torch.nn.attention.flex_attention on CPU tensors, its functions compiled into the fused kernels, with gradients.

    query [batch, heads, rows, columns]; key, value [batch or 1, heads, keys, columns], fewer heads with enable_gqa.

    score_mod(score, b, h, q_idx, kv_idx) and the mask_mod of a BlockMask are traced by PyTorch to operators, and these
    written as a text. An operator that has no line there is an Unsupported (a NotImplementedError) that names it.
    Tensors that they capture are read in each call, at most 8, and at most 8 numbers of them without axes; an index
    behind an end of one takes its last element. A function is traced again where anything that it reads may have
    changed. A row that sees no key is 0, its lse -inf. A BlockMask is taken as it is: blocks that
    it does not list are skipped, of full ones its mask_mod is not asked.

    Gradients: of query, key and value, through out and lse, by PyTorch's derivative of score_mod; and of floating
    tensors that score_mod captures, for which the derivatives of all logits are in memory, [batch, heads, rows, keys].
    torch.compile breaks its graph here.
    """
    tell_of_spinning_threads()
    if not enable_gqa and query.dim() == 4 and key.dim() == 4 and query.shape[1] != key.shape[1]:
        raise InvalidShape(f"key: has {key.shape[1]} heads, query {query.shape[1]}; must be as many without "
                           "enable_gqa=True")
    if query.dim() == key.dim() == value.dim() == 4 and key.shape[0] == 1 < query.shape[0]:
        key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    functions: Dict[str, Callable[..., Any]] = {} if score_mod is None else {_SCORE: score_mod}
    blocks = None
    if block_mask is not None:
        mask_mod, blocks = _of_block_mask(block_mask, query, key)
        if mask_mod is not None:
            functions[_MASK] = mask_mod
    asked = _Asked(functions, blocks, None if scale is None else number(scale, "scale"))
    found = _attend(query, key, value, asked, bool(return_lse))
    if not return_lse:
        return found[0]
    return found[0], found[1].double() if query.dtype == torch.float64 else found[1]
