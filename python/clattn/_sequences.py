"""Sequences that do not lie in a batch of equal lengths: packed ones, keys in pages of a pool, keys and values as codes,
ranges of keys a row."""
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._arrays import CODES, View, view
from ._errors import InvalidArgument, InvalidShape
from ._fields import _DENSE, _ROWS, broadcast, check_shapes, check_types, dense_integers
from ._prepared import Field
from ._problem import key_maximum, wholes

NAMES = ("cu_query", "cu_key", "page_table", "page_starts", "row_low", "row_high", "key_type", "value_type", "key_scales",
         "value_scales")
_TABLE, _LINE = (0, 3), (3,)


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
    has_key_len: bool  # whether the call's key_len is the number of keys


def integers(array: Any, name: str) -> View:
    """int32 numbers: an array of any package where it is, or a copy of other integers."""
    if hasattr(array, "dtype") and str(array.dtype).rpartition(".")[2] == "int32":
        return view(array, name)
    import numpy
    found = numpy.asarray(array)
    if found.dtype.kind not in "iu":
        raise InvalidArgument(f"{name}: type {found.dtype}; must be integers")
    if found.size and not (-2**31 <= int(found.min()) and int(found.max()) < 2**31):
        raise InvalidArgument(f"{name}: has numbers that do not fit 32 bits")
    return view(found.astype(numpy.int32), name)


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
        raise InvalidShape(f"{name}: has {found.shape[3]} bytes a row; must be whole blocks of {kind}, {size} bytes for "
                           f"{columns} columns, side by side")
    if found.offset or any(stride % size for stride in found.strides[:3]):
        raise InvalidShape(f"{name}: strides {found.strides} of bytes; must be multiples of {size}, a block of {kind}")
    strides = tuple([stride // size * columns for stride in found.strides[:3]] + [1])
    return found._replace(type=CODES[kind].name, shape=found.shape[:3] + (found.shape[3] // size * columns,), strides=strides)


def _seams(values: Any, name: str, count: int) -> Tuple[List[int], Field]:
    """Where packed sequences begin, and the last one ends; `count`: of rows in memory."""
    numbers = wholes(values, name, 32)
    if len(numbers) < 1 or numbers[0] != 0 or any(a > b for a, b in zip(numbers, numbers[1:])) or numbers[-1] > count:
        raise InvalidArgument(f"{name} {numbers if len(numbers) < 20 else '[...]'}: must begin with 0, never fall, and end "
                              f"within the {count} packed rows")
    return numbers, (name, dense_integers(numbers), _DENSE)


def _longest(seams: List[int]) -> int:
    return max([b - a for a, b in zip(seams, seams[1:])], default=0)


def _scales(array: Any, name: str, shape: Tuple[int, ...], problem: Dict[str, int]) -> Field:
    """Scales of codes, whose axes 2 and 3 say how many rows and columns share one."""
    found = view(array, f"{name}_scales")
    lead = 4 - len(found.shape)
    if lead < 0 or found.type != "float32":
        raise InvalidArgument(f"{name}_scales: {found.type} of shape {found.shape}; must be float32 of four axes or fewer, as "
                              f"{name} has them")
    given = (1,) * lead + found.shape
    strides = tuple(0 if own == 1 else stride for own, stride in zip(given, (0,) * lead + found.strides))
    for axis, word in ((2, "rows"), (3, "columns")):
        if shape[axis] and given[axis] and shape[axis] % given[axis]:
            raise InvalidShape(f"{name}_scales: has {given[axis]} for {shape[axis]} {word}; must divide them")
        problem[f"{name}_scale_{word}"] = 0 if given[axis] == 1 else shape[axis] // max(given[axis], 1)
    if given[0] not in (1, shape[0]) or given[1] not in (1, shape[1]):
        raise InvalidShape(f"{name}_scales: has shape {found.shape}, which does not broadcast to {name}'s {shape}")
    return f"{name}_scales", found._replace(shape=shape[:2] + given[2:], strides=strides), _ROWS


def _pages(key: View, said: Dict[str, Any], key_lengths: Any, batch: int, problem: Dict[str, int]) -> Tuple[int, List[Field]]:
    """(keys of the longest sequence, fields) of keys in a pool [pages, kv_heads, page_size, columns]."""
    if key_lengths is None:
        raise InvalidArgument("page_table: needs key_lengths, the number of keys of each sequence")
    lengths = wholes(key_lengths, "key_lengths", 32)
    table = integers(said["page_table"], "page_table")
    starts = said["page_starts"]
    if len(table.shape) != (2 if starts is None else 1) or (starts is None and table.shape[0] != batch):
        raise InvalidShape(f"page_table: has shape {table.shape}; must be [batch, pages of a sequence], here of {batch}, or "
                           "one line with page_starts")
    keys = max(lengths, default=0)
    size = key.shape[2]
    if starts is None and size and table.shape[1] < -(-keys // size):
        raise InvalidShape(f"page_table: has {table.shape[1]} pages a sequence; {keys} keys need {-(-keys // size)} of {size}")
    problem.update(page_size=size, pages=key.shape[0])
    fields: List[Field] = [("page_table", table, _TABLE if starts is None else _LINE)]
    if starts is not None:
        numbers = wholes(starts, "page_starts", 32)
        if len(numbers) != batch + 1:
            raise InvalidShape(f"page_starts: has {len(numbers)} numbers; must have {batch + 1}, one for each sequence and the "
                               "end")
        fields.append(("page_starts", dense_integers(numbers), _DENSE))
    return keys, fields


def _check_pairs(query: View, key: View, value: View) -> None:
    """As check_shapes, where batches are no axis of all three."""
    check_types(query, key, value)
    if key.shape[3] != query.shape[3]:
        raise InvalidShape(f"head_dim: query has {query.shape[3]} columns, key {key.shape[3]}; must be equal")
    if value.shape[:3] != key.shape[:3]:
        raise InvalidShape(f"key and value: have shapes {key.shape} and {value.shape}; must be equal but for columns")


def sequences_of(query: View, key: View, value: View, key_lengths: Any, said: Dict[str, Any]) -> Sequences:
    """The sequences of views of four axes; `said` has a value or None for each of NAMES."""
    if all(x is None for x in said.values()):
        check_shapes(query, key, value)
        return Sequences(query, key, value, query.shape[0], query.shape[2], key.shape[2], (), [], True)
    problem: Dict[str, int] = {}
    fields: List[Field] = []
    key, value = as_codes(key, "key", said["key_type"]), as_codes(value, "value", said["value_type"])
    if said["cu_query"] is None and said["page_table"] is None:
        check_shapes(query, key, value)
    else:
        _check_pairs(query, key, value)
    batch, heads, rows, _ = query.shape
    keys = key.shape[2]
    if said["cu_query"] is not None:
        if query.shape[0] != 1:
            raise InvalidShape(f"query: has batch {query.shape[0]}; packed sequences lie one behind the other, in one")
        seams, field = _seams(said["cu_query"], "cu_query", rows)
        batch, rows, fields = len(seams) - 1, _longest(seams), [field]
    elif said["cu_key"] is not None:
        raise InvalidArgument("cu_key: needs cu_query")
    is_paged = said["page_table"] is not None
    if is_paged:
        keys, more = _pages(key, said, key_lengths, batch, problem)
        fields += more
    elif said["page_starts"] is not None:
        raise InvalidArgument("page_starts: needs page_table")
    elif said["cu_query"] is not None:
        given = said["cu_query"] if said["cu_key"] is None else said["cu_key"]
        seams, field = _seams(given, "cu_key", keys)
        if len(seams) != batch + 1 or key.shape[0] != 1:
            raise InvalidShape(f"cu_key: has {len(seams)} numbers, of batch {key.shape[0]}; must have {batch + 1}, of batch 1")
        keys, fields = _longest(seams), fields + [field]
    low, high = said["row_low"], said["row_high"]
    if (low is None) != (high is None):
        raise InvalidArgument("row_low, row_high: must be given both")
    if low is not None:
        fields += [(name, broadcast(integers(array, name), (query.shape[0], heads, query.shape[2]), name), _ROWS[:3])
                   for name, array in (("row_low", low), ("row_high", high))]
    for name, found in (("key", key), ("value", value)):
        if said[f"{name}_scales"] is not None:
            fields.append(_scales(said[f"{name}_scales"], name, found.shape, problem))
    has_key_len = not is_paged and said["cu_query"] is None
    problem.update(batch=batch, query_len=rows, key_len=keys if said["cu_query"] is not None else key_maximum(rows, keys))
    return Sequences(query, key, value, batch, rows, keys, tuple(problem.items()), fields, has_key_len)
