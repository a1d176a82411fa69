"""What weights say: how much each key gets, and how large logits become, by one call of clattn_key_sums_host."""
import ctypes
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import _library as lib
from ._arrays import View, maker_of, view
from ._attention import attention, call_of
from ._code import written
from ._context import Context, default_context
from ._derivatives import refuse_gradients
from ._errors import InvalidArgument, InvalidShape, check
from ._fields import _HEADS, _ROWS, features_of, four_axes, masked_fields, three_axes
from ._prepared import Field, place
from ._problem import Options, options_of, problem_of, refuse_words, whole
from ._sequences import NAMES, sequences_of

_SUMS, _MAX_LOGIT = "key_sums", "max_logit"
_OUTPUTS = {_SUMS: lib.CLATTN_KEY_SUMS, _MAX_LOGIT: lib.CLATTN_MAX_LOGIT}
_AXES = {_SUMS: (0, 1, 3), _MAX_LOGIT: _HEADS}


def _wanted(rows: Optional[int], sums: bool, max_logit: bool) -> Tuple[List[str], int]:
    """The outputs, and the library's last_rows."""
    names = [name for name, is_asked in ((_SUMS, sums), (_MAX_LOGIT, max_logit)) if is_asked]
    if not names:
        raise InvalidArgument("return_sums False: nothing is left to return; set return_max_logit")
    if rows is None:
        return names, 0
    if not sums:
        raise InvalidArgument(f"rows {rows}: is what sums are over, and return_sums is False; leave it None")
    last_rows = whole(rows, "rows")
    if last_rows < 1:
        raise InvalidArgument(f"rows {last_rows}: must be 1 or more, or None for all")
    return names, last_rows


def _run(context: Context, query: View, key: View, fields: Sequence[Field], call: Any, options: Options,
         places: Dict[str, View], last_rows: int) -> None:
    """One blocking call; `places`: views of what is computed, by the library's names."""
    kinds = {name: found.type for name, found, _ in fields}
    forward = problem_of(query, key, _no_value(query, key), features_of(fields), kinds, options)
    problem = lib.new("clattn_key_sums_problem", forward=ctypes.addressof(forward), last_rows=last_rows,
                      outputs=sum(_OUTPUTS[name] for name in places))
    tensors, results = lib.new("clattn_host_tensors"), lib.new("clattn_host_key_sums")
    for name, found, axes in [("query", query, _ROWS), ("key", key, _ROWS), *fields]:
        place(tensors, name, found, axes)
    for name, found in places.items():
        place(results, name, found, _AXES[name])
    check(lib.clattn_key_sums_host(context.handle, ctypes.byref(problem), ctypes.byref(call), ctypes.byref(tensors),
                                   ctypes.byref(results)))


def _no_value(query: View, key: View) -> View:
    """Values of one column, for a problem that must have some; nobody reads them."""
    return key._replace(type=query.type, shape=key.shape[:3] + (1,))


def _lse_field(lse: Any, query: View) -> Field:
    found = three_axes(lse, "lse")
    if found.shape != query.shape[:3] or found.type != "float32":
        raise InvalidShape(f"lse: is {found.type} of shape {found.shape}; must be float32 of shape {query.shape[:3]}, "
                           "as attention() returns it")
    return "lse", found, _ROWS[:3]


def key_sums(query: Any, key: Any, *, rows: Optional[int] = None, lse: Any = None, return_sums: bool = True,
             return_max_logit: bool = False, mask: Any = None, bias: Any = None, causal: Optional[str] = None,
             alignment: Optional[str] = None, offsets: Optional[Iterable[int]] = None, window: Any = None,
             always_visible_keys: int = 0, scale: Optional[float] = None, softcap: Optional[float] = None,
             slopes: Any = None, sinks: Any = None, key_lengths: Optional[Iterable[int]] = None, cu_query: Any = None,
             cu_key: Any = None, page_table: Any = None, page_starts: Any = None, row_low: Any = None,
             row_high: Any = None, key_type: Optional[str] = None, key_scales: Any = None, key_lists: Any = None,
             list_rows: Optional[int] = None, mask_first_key: int = 0, score: Optional[str] = None,
             inputs: Optional[Dict[str, Any]] = None, context: Optional[Context] = None, **others: Any) -> Any:
    """The sum of the weights that each key gets in attention() with the same arguments, without a matrix of them.

    rows   the last rows of each sequence, over whose weights sums are; all where None
    lse    what attention() gave, with return_lse; computed again where None, which takes a forward call. It may be of
           more keys than these, as when parts of them are merged: sums are these keys' own share then
    return_sums        False, with return_max_logit: the largest logits alone, which need no lse
    return_max_logit   also returns the largest logit that softmax sees in each head, -inf where there is none

    Sums are [batch, heads, keys], of packed sequences [sequences, heads, keys of the longest], largest logits
    [batch, heads]: in float32, float64 where the queries are. Keys that no row sees are 0. A sink has its share of
    lse, and no sum. Returns sums, or (sums, max_logit), or max_logit.

    Results are the same to the last bit each time. Nothing is differentiated. Raises as attention() does.
    """
    if others:
        refuse_words("key_sums", others)
    names, last_rows = _wanted(rows, return_sums, return_max_logit)
    learned = {"bias": bias, "slopes": slopes}
    refuse_gradients("key_sums", query=query, key=key, scale=scale, softcap=softcap, sinks=sinks, lse=lse, **learned)
    options = options_of(causal, alignment, offsets is not None, window, always_visible_keys, softcap)
    masks = dict(mask=mask, causal=causal, alignment=alignment, offsets=offsets, window=window,
                 always_visible_keys=always_visible_keys, mask_first_key=mask_first_key, key_lengths=key_lengths)
    lies = dict(cu_query=cu_query, cu_key=cu_key, page_table=page_table, page_starts=page_starts, row_low=row_low,
                row_high=row_high, key_type=key_type, key_scales=key_scales, key_lists=key_lists, list_rows=list_rows)
    found = view(query, "query")
    axes, q, k = len(found.shape), four_axes(found, "query"), four_axes(view(key, "key"), "key")
    of = sequences_of(q, k, _no_value(q, k), key_lengths, {**dict.fromkeys(NAMES), **lies})
    k, shape = of.key, (of.batch, q.shape[1], of.rows, of.keys)
    code = written(score, mask if isinstance(mask, str) else None, inputs)
    fields, more = masked_fields(shape, q.type, mask_first_key, dict(
        learned, mask=None if isinstance(mask, str) else mask, key_lengths=key_lengths, offsets=offsets))
    fields, options = of.fields + fields, options + more
    call = call_of(of.keys, scale)
    call.mask_first_key = mask_first_key
    if code is not None:
        fields, options = fields + code.fields, options + code.options
        call.code_scalars[:len(code.scalars)] = code.scalars
    if return_sums:
        if lse is None:
            lse = attention(query, key, key, return_lse=True, value_type=key_type, value_scales=key_scales,
                            sinks=sinks, scale=scale, softcap=softcap, score=score, inputs=inputs, context=context,
                            **learned, **masks, **lies)[1]
        fields = [*fields, _lse_field(lse, q)]
    kind = "float64" if q.type == "float64" else "float32"
    results = [maker_of(query, tuple(shape[axis] for axis in _AXES[name]), kind)() for name in names]
    _run(context or default_context(), q, k, fields, call, options + of.options,
         {name: view(array, name, is_written=True) for name, array in zip(names, results)}, last_rows)
    lead = () if of.is_packed else (0,) * (4 - axes)
    return tuple(array[lead] for array in results) if len(results) > 1 else results[0][lead]
