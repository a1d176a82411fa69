"""Sequences that do not lie in a batch of equal lengths: packed ones, keys in pages of a pool, keys and values as
codes, ranges of keys a row, lists of keys."""
import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._arrays import CODES, Code, Scales, View, code_of, view
from ._errors import InvalidArgument, InvalidShape
from ._fields import _DENSE, _ROWS, broadcast, check_shapes, check_types, dense_integers
from ._prepared import Field
from ._problem import key_maximum, whole, wholes

NAMES = ("cu_query", "cu_key", "page_table", "page_starts", "row_low", "row_high", "key_type", "value_type",
         "key_scales", "value_scales", "key_lists", "list_rows", "value_in_key")
_TABLE, _TABLES, _LINE = (0, 3), (0, 1, 3), (3,)


class Sequences(NamedTuple):
    """What a problem has otherwise than its tensors say."""

    query: View
    key: View
    value: View
    batch: int  # sequences
    rows: int  # of the longest
    keys: int
    options: Tuple[Tuple[str, int], ...]  # fields of the problem
    fields: List[Field]
    is_packed: bool = False  # then results have elements that belong to no sequence, which the library does not write


def integers(array: Any, name: str) -> View:
    """A view of int32: of an array of any package where it is, or of a copy of other integers."""
    if isinstance(array, View) or (hasattr(array, "dtype") and str(array.dtype).rpartition(".")[2] == "int32"):
        return view(array, name)
    import numpy
    found = numpy.asarray(array)
    if found.dtype.kind not in "iu":
        raise InvalidArgument(f"{name}: type {found.dtype}; must be integers")
    if found.size and not (-2**31 <= int(found.min()) and int(found.max()) < 2**31):
        raise InvalidArgument(f"{name}: has numbers that do not fit 32 bits")
    return view(found.astype(numpy.int32), name)


def columns_of(columns: int, kind: Optional[str]) -> int:
    """How many columns a last axis of so many bytes of a kind of codes has; other arrays have what they have."""
    code = CODES.get(kind or "")
    return columns // code.bytes * code.columns if code else columns


def as_codes(found: View, name: str, kind: Optional[str]) -> View:
    """Bytes as the codes that they are; blocks of 32 columns as their columns."""
    if kind is None:
        return found
    if kind not in CODES:
        raise InvalidArgument(f"{name}_type {kind!r}: must be one of {', '.join(CODES)}")
    if found.type not in ("uint8", "int8", CODES[kind].name):
        raise InvalidArgument(f"{name}: type {found.type}; {kind} are bytes, uint8 or int8")
    size, columns = CODES[kind].bytes, CODES[kind].columns
    if columns == 1:
        return found._replace(type=CODES[kind].name)
    if found.shape[3] % size or found.strides[3] not in (0, 1):
        raise InvalidShape(f"{name}: has {found.shape[3]} bytes a row; must be whole blocks of {kind}, {size} bytes "
                           f"for {columns} columns, side by side")
    if found.offset or any(stride % size for stride in found.strides[:3]):
        raise InvalidShape(f"{name}: strides {found.strides} of bytes; must be multiples of {size}, a block of {kind}")
    strides = tuple([stride // size * columns for stride in found.strides[:3]] + [1])
    return found._replace(type=CODES[kind].name, shape=found.shape[:3] + (found.shape[3] // size * columns,),
                          strides=strides)


def _seams(values: Any, name: str, count: int) -> Tuple[List[int], Field]:
    """Where packed sequences begin, and the last one ends; `count`: of rows in memory."""
    numbers = wholes(values, name, 32)
    if len(numbers) < 1 or numbers[0] != 0 or any(a > b for a, b in zip(numbers, numbers[1:])) or numbers[-1] > count:
        raise InvalidArgument(f"{name} {numbers if len(numbers) < 20 else '[...]'}: must begin with 0, never fall, and "
                              f"end within the {count} packed rows")
    return numbers, (name, dense_integers(numbers), _DENSE)


def _longest(seams: List[int]) -> int:
    return max([b - a for a, b in zip(seams, seams[1:])], default=0)


def scale_fields(given: Any, name: str, stored: View, problem: Dict[str, int]) -> List[Field]:
    """What lies beside codes: an array of scales, or Scales."""
    code = code_of(stored)
    parts = given if isinstance(given, Scales) else Scales(given)
    fields = [_scales(parts.scales, name, "scales", stored.shape, problem, code)]
    if code.has_zero_points != (parts.zero_points is not None):
        raise InvalidArgument(f"{name}_scales: {stored.type} " +
                              ("has zero points too: clattn.Scales(scales, zero_points)" if code.has_zero_points else
                               "has no zero points; leave them None"))
    if code.has_zero_points:
        fields.append(_scales(parts.zero_points, name, "zero_points", stored.shape, problem, code))
    if code.has_tensor_scale:
        number = (ctypes.c_float * 1)(parts.tensor_scale)
        fields.append((f"{name}_tensor_scale", View(ctypes.addressof(number), "float32", (1,), (1,), number), _DENSE))
    elif parts.tensor_scale != 1:
        raise InvalidArgument(f"{name}_scales: tensor_scale {parts.tensor_scale}: is nvfp4's; leave it 1")
    return fields


def _scales(array: Any, name: str, word: str, shape: Tuple[int, ...], problem: Dict[str, int], code: Code) -> Field:
    """Scales of codes, or zero points, whose axes 2 and 3 say how many rows and columns share one."""
    found = view(array, f"{name}_{word}")
    lead, wanted = 4 - len(found.shape), "uint8" if code.scale_columns else "float32"
    if lead < 0 or found.type != wanted:
        raise InvalidArgument(f"{name}_{word}: {found.type} of shape {found.shape}; must be {wanted} of four axes or "
                              f"fewer, as {name} has them")
    given = (1,) * lead + found.shape
    strides = tuple(0 if own == 1 else stride for own, stride in zip(given, (0,) * lead + found.strides))
    for axis, extent in ((2, "rows"), (3, "columns")):
        of_type = (1, code.scale_columns)[axis - 2] if code.scale_columns else 0
        if of_type and given[axis] != -(-shape[axis] // of_type):
            raise InvalidShape(f"{name}_{word}: has {given[axis]} for {shape[axis]} {extent}; must have one for each "
                               f"{of_type}")
        if not of_type and shape[axis] and given[axis] and shape[axis] % given[axis]:
            raise InvalidShape(f"{name}_{word}: has {given[axis]} for {shape[axis]} {extent}; must divide them")
        is_one = given[axis] == 1 and not (axis == 2 and shape[2] == 1 and code.has_zero_points)
        problem[f"{name}_scale_{extent}"] = of_type or (0 if is_one else shape[axis] // max(given[axis], 1))
    if given[0] not in (1, shape[0]) or given[1] not in (1, shape[1]):
        raise InvalidShape(f"{name}_{word}: has shape {found.shape}, which does not broadcast to {name}'s {shape}")
    return f"{name}_{word}", found._replace(shape=shape[:2] + given[2:], strides=strides), _ROWS


def _pages(key: View, said: Dict[str, Any], key_lengths: Any, batch: int,
           problem: Dict[str, int]) -> Tuple[int, List[Field]]:
    """(keys of the longest sequence, fields) of keys in a pool [pages, kv_heads, page_size, columns]."""
    if key_lengths is None:
        raise InvalidArgument("page_table: needs key_lengths, the number of keys of each sequence")
    lengths = wholes(key_lengths, "key_lengths", 32)
    table = integers(said["page_table"], "page_table")
    starts = said["page_starts"]
    of_heads = len(table.shape) == 3 and table.shape[1] == key.shape[1]
    if not (of_heads or len(table.shape) == (2 if starts is None else 1)) or \
            (starts is None and table.shape[0] != batch) or (of_heads and starts is not None):
        raise InvalidShape(f"page_table: has shape {table.shape}; must be [batch, pages of a sequence], here of "
                           f"{batch}, [batch, kv_heads, pages], or one line with page_starts")
    keys = max(lengths, default=0)
    size = key.shape[2]
    if starts is None and size and table.shape[-1] < -(-keys // size):
        raise InvalidShape(f"page_table: has {table.shape[-1]} pages a sequence; {keys} keys need "
                           f"{-(-keys // size)} of {size}")
    problem.update(page_size=size, pages=key.shape[0])
    fields: List[Field] = [("page_table", table, _LINE if starts is not None else _TABLES if of_heads else _TABLE)]
    if starts is not None:
        numbers = wholes(starts, "page_starts", 32)
        if len(numbers) != batch + 1:
            raise InvalidShape(f"page_starts: has {len(numbers)} numbers; must have {batch + 1}, one for each sequence "
                               "and the end")
        fields.append(("page_starts", dense_integers(numbers), _DENSE))
    return keys, fields


def _check_pairs(query: View, key: View, value: View) -> None:
    """As check_shapes, where batches are no axis of all three."""
    check_types(query, key, value)
    if key.shape[3] != query.shape[3]:
        raise InvalidShape(f"head_dim: query has {query.shape[3]} columns, key {key.shape[3]}; must be equal")
    if value.shape[:3] != key.shape[:3]:
        raise InvalidShape(f"key and value: have shapes {key.shape} and {value.shape}; must be equal but for columns")


def _packed(query: View, key: View, said: Dict[str, Any], problem: Dict[str, int]) -> Tuple[int, List[Field]]:
    """(keys of the longest sequence where these are packed too, fields)"""
    if query.shape[0] != 1:
        raise InvalidShape(f"query: has batch {query.shape[0]}; packed sequences lie one behind the other, in one")
    rows, field = _seams(said["cu_query"], "cu_query", query.shape[2])
    problem.update(batch=len(rows) - 1, query_len=_longest(rows))
    if said["page_table"] is not None:
        return 0, [field]
    keys, other = _seams(said["cu_query"] if said["cu_key"] is None else said["cu_key"], "cu_key", key.shape[2])
    if len(keys) != len(rows) or key.shape[0] != 1:
        raise InvalidShape(f"cu_key: has {len(keys)} numbers, of batch {key.shape[0]}; must have {len(rows)}, of "
                           "batch 1")
    return _longest(keys), [field, other]


def _ranges(query: View, low: Any, high: Any) -> List[Field]:
    """The keys that each row sees, of a problem that has such."""
    if (low is None) != (high is None):
        raise InvalidArgument("row_low, row_high: must be given both")
    if low is None:
        return []
    return [(name, broadcast(integers(array, name), query.shape[:3], name), _ROWS[:3])
            for name, array in (("row_low", low), ("row_high", high))]


def _lists(query: View, key: View, lists: Any, rows: int, problem: Dict[str, int]) -> List[Field]:
    """The numbers of the keys that rows see; an axis of 1 is for all."""
    if lists is None:
        return []
    found = integers(lists, "key_lists")
    wanted = problem["batch"], key.shape[1], -(-problem["query_len"] // rows)
    shape = found.shape
    if len(shape) != 4 or any(n not in (1, most) for n, most in zip(shape, wanted)) or not shape[3]:
        raise InvalidShape(f"key_lists: has shape {shape}; must be [batch, kv_heads, lists of {rows} rows, keys of a "
                           f"list], here of {wanted}, or 1")
    problem.update(key_list_rows=rows, key_list_keys=shape[3])
    return [("key_lists", broadcast(found, wanted + shape[3:], "key_lists"), _ROWS)]


def _check_alone(said: Dict[str, Any]) -> None:
    """Raises for what means nothing without another."""
    for name, other in (("cu_key", "cu_query"), ("page_starts", "page_table"), ("list_rows", "key_lists")):
        if said[name] is not None and said[other] is None:
            raise InvalidArgument(f"{name}: needs {other}")
    if said["cu_key"] is not None and said["page_table"] is not None:
        raise InvalidArgument("cu_key: keys in pages are not packed; give key_lengths alone")


def _value_of(key: View, value: View, said: Dict[str, Any], problem: Dict[str, int]) -> View:
    """Values as what they are stored in; those that lie in keys are these, less the columns behind them."""
    if said["value_in_key"] is None:
        return as_codes(value, "value", said["value_type"])
    for name in "value_type", "value_scales":
        if said[name] is not None:
            raise InvalidArgument(f"{name}: values that are columns of key have the key's; leave it None")
    columns = whole(said["value_in_key"], "value_in_key", least=1)
    if columns > key.shape[3]:
        raise InvalidShape(f"value_in_key {columns}: must be at most the columns of key, {key.shape[3]}")
    problem["value_in_key"] = 1
    return key._replace(shape=key.shape[:3] + (columns,))


def sequences_of(query: View, key: View, value: View, key_lengths: Any, said: Dict[str, Any]) -> Sequences:
    """The sequences of views of four axes; `said` has a value or None for each of NAMES."""
    if all(x is None for x in said.values()):
        check_shapes(query, key, value)
        return Sequences(query, key, value, query.shape[0], query.shape[2], key.shape[2], (), [])
    _check_alone(said)
    problem = {"batch": query.shape[0], "query_len": query.shape[2]}
    key = as_codes(key, "key", said["key_type"])
    value = _value_of(key, value, said, problem)
    is_packed, is_paged = said["cu_query"] is not None, said["page_table"] is not None
    (_check_pairs if is_packed or is_paged else check_shapes)(query, key, value)
    keys = key.shape[2]
    fields: List[Field] = []
    if is_packed:
        keys, fields = _packed(query, key, said, problem)
    if is_paged:
        keys, more = _pages(key, said, key_lengths, problem["batch"], problem)
        fields = fields + more
    fields = fields + _ranges(query, said["row_low"], said["row_high"])
    list_rows = 1 if said["list_rows"] is None else whole(said["list_rows"], "list_rows", least=1)
    fields += _lists(query, key, said["key_lists"], list_rows, problem)
    for name, found in (("key", key), ("value", value)):
        if said[f"{name}_scales"] is not None:
            fields += scale_fields(said[f"{name}_scales"], name, found, problem)
    rows = problem["query_len"]
    problem["key_len"] = keys if is_packed else key_maximum(rows, keys)
    return Sequences(query, key, value, problem["batch"], rows, keys, tuple(problem.items()), fields, is_packed)
