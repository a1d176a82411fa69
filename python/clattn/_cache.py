"""What decoders do beside attention: turning rows by their positions, writing new keys and values into a cache,
codes."""
import ctypes
from typing import Any, Dict, Iterable, Optional, Tuple

from . import _library as lib
from ._arrays import CODES, STORED, TYPES, Scales, View, code_of, maker_of, view
from ._context import Context, default_context
from ._derivatives import is_written, refuse_gradients
from ._errors import InvalidArgument, InvalidShape, check
from ._fields import _DENSE, _OUT_TYPES, _ROWS, dense_integers, four_axes, int32
from ._norms import set_norms
from ._prepared import place
from ._problem import number, whole
from ._sequences import as_codes, integers, scale_fields

_PAIRS = {"halves": lib.CLATTN_PAIRS_HALVES, "interleaved": lib.CLATTN_PAIRS_INTERLEAVED}
_SCALES = {"key": lib.CLATTN_WITH_KEY_SCALES, "value": lib.CLATTN_WITH_VALUE_SCALES}
_KINDS = {"none": lib.CLATTN_SCALING_NONE, "linear": lib.CLATTN_SCALING_LINEAR, "ntk": lib.CLATTN_SCALING_NTK,
          "dynamic": lib.CLATTN_SCALING_DYNAMIC, "yarn": lib.CLATTN_SCALING_YARN, "llama3": lib.CLATTN_SCALING_LLAMA3,
          "longrope": lib.CLATTN_SCALING_LONGROPE}


def _word(value: Any, words: Any, name: str) -> int:
    if value not in words:
        raise InvalidArgument(f"{name} {value!r}: must be {' or '.join(map(repr, words))}")
    return int(words[value])


def rotary_table(columns: int, positions: int, *, base: float = 10000.0, kind: str = "none",
                 **scaling: Any) -> Tuple[Any, Any]:
    """(cosine, sine) of rotary embedding, float32 [positions, columns / 2]: a row for each position, made in float64.

    base and kind ("none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope") are the model's, and so is what its
    kind has more: fields of clattn_rotary_scaling, such as factor and original_positions.
    """
    import numpy
    said = lib.new("clattn_rotary_scaling", kind=_word(kind, _KINDS, "kind"), base=number(base, "base"))
    kept = []
    for name, value in scaling.items():
        if not hasattr(said, name) or name == "struct_size":
            raise TypeError(f"rotary_table() got an unexpected keyword argument {name!r}")
        if name in ("short_factor", "long_factor"):
            kept.append(numpy.ascontiguousarray(value, dtype=numpy.float64))
            if kept[-1].shape != (columns // 2,):
                raise InvalidShape(f"{name}: has shape {kept[-1].shape}; must be [columns / 2], here {columns // 2}")
            value = kept[-1].ctypes.data
        setattr(said, name, value)
    tables = [numpy.empty((whole(positions, "positions", least=0), columns // 2), numpy.float32) for _ in range(2)]
    check(lib.clattn_rotary_table(ctypes.byref(said), columns, positions, None,
                                  *[table.ctypes.data for table in tables]))
    return tables[0], tables[1]


def _table(array: Any, name: str) -> View:
    found = view(array, name)
    if len(found.shape) != 2 or found.type != "float32":
        raise InvalidShape(f"{name}: is {found.type} of shape {found.shape}; must be float32 [positions, columns / 2]")
    return found._replace(shape=(1, 1) + found.shape, strides=(0, 0) + found.strides)


def _written(array: Any, name: str) -> View:
    if getattr(array, "requires_grad", False):
        raise InvalidArgument(f"{name}: requires a gradient, which writing to it would make wrong; give "
                              f"{name}.detach()")
    found = view(array, name, is_written=True)
    if found.is_read_only:
        raise InvalidArgument(f"{name}: is read-only; give an array that may be written")
    return four_axes(found, name)


def _where(starts: Any, positions: Any, batch: int, rows: int) -> Tuple[str, View, Tuple[int, ...], int]:
    """The tensor that says where rows stand: its name, view, axes and feature."""
    if (starts is None) == (positions is None):
        raise InvalidArgument("starts, positions: give one, which says where rows stand")
    if starts is not None:
        return "starts", dense_integers(int32(starts, batch, "starts")), _DENSE, lib.CLATTN_WITH_STARTS
    found = integers(positions, "positions")
    if found.shape not in ((rows,), (batch, rows)):
        raise InvalidShape(f"positions: has shape {found.shape}; must be [batch, rows], here {(batch, rows)}, or "
                           "[rows]")
    lead = 2 - len(found.shape)
    return ("positions", found._replace(shape=(1,) * lead + found.shape, strides=(0,) * lead + found.strides), (0, 2),
            lib.CLATTN_WITH_POSITIONS)


def rotary(x: Any, cosine: Any, sine: Any, *, pairs: Optional[str], starts: Optional[Iterable[int]] = None,
           positions: Any = None, inverse: bool = False, first_column: int = 0, norm: Any = None,
           norm_epsilon: Optional[float] = None, out: Any = None, context: Optional[Context] = None) -> Any:
    """Rows [batch, heads, rows, columns] turned by where they stand: row i of sequence b at starts[b] + i, or at
    positions[b, i].

    cosine, sine: of rotary_table(), of as many columns as are turned, from first_column on. pairs: "halves" (Llama and
    Qwen as Hugging Face has them) or "interleaved" (GPT-J, GGUF): never guessed. inverse turns back. out may be x.
    norm: True, or float32 weights [columns]: each row becomes x / sqrt(mean(x**2) + norm_epsilon) * norm before that.
    """
    refuse_gradients("rotary", x=x, cosine=cosine, sine=sine)
    found = view(x, "x")
    axes = len(found.shape)
    found = four_axes(found, "x")
    if found.type not in _OUT_TYPES:
        raise InvalidArgument(f"x: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
    result = maker_of(x, found.shape[4 - axes:], found.type)() if out is None else out
    to = _written(result, "out")
    if to.shape != found.shape or to.type != found.type:
        raise InvalidShape(f"out: is {to.type} of shape {to.shape}; must be {found.type} of shape {found.shape}")
    batch, heads, rows, columns = found.shape
    name, where, places, feature = _where(starts, positions, batch, rows)
    tables = _table(cosine, "cosine"), _table(sine, "sine")
    problem = lib.new("clattn_rotary_problem", type=TYPES[found.type], pairs=_word(pairs, _PAIRS, "pairs"), batch=batch,
                      heads=heads, query_len=rows, head_dim=columns, first_column=whole(first_column, "first_column"),
                      columns=2 * tables[0].shape[3], positions=tables[0].shape[2], features=feature,
                      inverse=int(bool(inverse)),
                      strided_columns=int(any(v.strides[3] != 1 for v in (found, to, *tables))))
    tensors = lib.new("clattn_rotary_host_tensors")
    norms = set_norms(problem, [("norm", norm, lib.CLATTN_WITH_NORM, columns)], norm_epsilon)
    for field, v, where_axes in (("x", found, _ROWS), ("out", to, _ROWS), ("cosine", tables[0], _ROWS),
                                 ("sine", tables[1], _ROWS), (name, where, places), *norms):
        place(tensors, field, v, where_axes)
    check(lib.clattn_rotary_host((context or default_context()).handle, ctypes.byref(problem), None,
                                 ctypes.byref(tensors)))
    is_written(result)
    return result


def append(key: Any, value: Any, key_cache: Any, value_cache: Any, *, starts: Iterable[int], query: Any = None,
           pairs: Optional[str] = None, cosine: Any = None, sine: Any = None, page_table: Any = None,
           key_type: Optional[str] = None, value_type: Optional[str] = None, query_norm: Any = None,
           key_norm: Any = None, value_norm: bool = False, norm_epsilon: Optional[float] = None,
           key_scales: Any = None, value_scales: Any = None, context: Optional[Context] = None) -> Any:
    """Writes new rows of keys and values [batch, kv_heads, rows, columns] into a cache, row i of sequence b to row
    starts[b] + i, in the cache's types; returns the queries, normed and turned, or None where there are none.

    key_cache, value_cache   [batch, kv_heads, capacity, columns], or with page_table [pages, kv_heads, rows of a page,
                             columns]; written in place. Blocks ("q8_0", ...) count bytes in their last axis
    query_norm, key_norm, value_norm, norm_epsilon   rows are normed first, as by rotary(); values have no weights
    pairs, cosine, sine      as of rotary(): queries and keys are turned then, where they are given
    page_table               [batch, pages of a sequence], as of attention()
    key_type, value_type     what the bytes of the caches are, as of attention()
    key_scales, value_scales of the caches, as of attention(): those of int8, int4, e4m3, e5m2 are read (1 where None),
                             those of u8, u4, mxfp8, mxfp4, nvfp4 are made of the rows and written
    """
    refuse_gradients("append", key=key, value=value, query=query)
    k, v = four_axes(view(key, "key"), "key"), four_axes(view(value, "value"), "value")
    caches = [as_codes(_written(cache, name), name, kind) for cache, name, kind in
              ((key_cache, "key_cache", key_type), (value_cache, "value_cache", value_type))]
    for name, found in (("key", k), ("value", v)):
        if found.type not in _OUT_TYPES or found.type != k.type:
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(_OUT_TYPES)}, the key's")
    batch, heads, rows, columns = k.shape
    if v.shape[:3] != k.shape[:3]:
        raise InvalidShape(f"key and value: have shapes {k.shape} and {v.shape}; must be equal but for columns")
    for cache, found, name in ((caches[0], k, "key_cache"), (caches[1], v, "value_cache")):
        if cache.shape[1] != heads or cache.shape[3] != found.shape[3] or cache.shape[:3] != caches[0].shape[:3] or \
                (page_table is None and cache.shape[0] != batch):
            raise InvalidShape(f"{name}: has shape {cache.shape}, which does not fit rows of {found.shape}")
    places = [("key", k, _ROWS), ("value", v, _ROWS), ("key_cache", caches[0], _ROWS),
              ("value_cache", caches[1], _ROWS),
              ("starts", dense_integers(int32(starts, batch, "starts")), _DENSE)]
    problem = lib.new("clattn_append_problem", type=TYPES[k.type], key_type=STORED[caches[0].type],
                      value_type=STORED[caches[1].type], batch=batch, kv_heads=heads, query_len=rows, head_dim=columns,
                      head_dim_v=v.shape[3], capacity=caches[0].shape[2], features=lib.CLATTN_WITH_STARTS)
    for name, cache, scales in (("key", caches[0], key_scales), ("value", caches[1], value_scales)):
        shares: Dict[str, int] = {}
        made = f"{name}_scales" if code_of(cache).makes_scales else None
        for field, found, axes in scale_fields(scales, name, cache, shares) if scales is not None else ():
            places.append((f"{field}_out" if field == made else field, found, axes))
        for field, share in shares.items():
            setattr(problem, field, share)
        problem.features |= _SCALES[name] if scales is not None else 0
    if page_table is not None:
        table = integers(page_table, "page_table")
        if len(table.shape) != 2 or table.shape[0] != batch:
            raise InvalidShape(f"page_table: has shape {table.shape}; must be [batch, pages of a sequence], here of "
                               f"{batch}")
        problem.page_size, problem.pages = caches[0].shape[2], caches[0].shape[0]
        problem.capacity = table.shape[1] * caches[0].shape[2]
        problem.features |= lib.CLATTN_WITH_PAGES
        places.append(("page_table", table, (0, 3)))
    result = None
    norms = set_norms(problem, [("query_norm", query_norm, lib.CLATTN_WITH_QUERY_NORM, columns),
                                ("key_norm", key_norm, lib.CLATTN_WITH_KEY_NORM, columns),
                                ("value_norm", bool(value_norm), lib.CLATTN_WITH_VALUE_NORM, v.shape[3])], norm_epsilon)
    if pairs is not None:
        tables = _table(cosine, "cosine"), _table(sine, "sine")
        problem.pairs, problem.positions = _word(pairs, _PAIRS, "pairs"), tables[0].shape[2]
        problem.columns = 2 * tables[0].shape[3]
        problem.features |= lib.CLATTN_WITH_ROTARY
        places += [("cosine", tables[0], _ROWS), ("sine", tables[1], _ROWS)]
    elif (query is not None and query_norm is None) or cosine is not None or sine is not None:
        raise InvalidArgument("pairs: is missing, though queries or tables of angles are given; must be 'halves' or "
                              "'interleaved', or query_norm be given")
    if query is not None:
        q = view(query, "query")
        result = maker_of(query, q.shape, q.type)()
        q, to = four_axes(q, "query"), _written(result, "query")
        if q.type != k.type or q.shape[0] != batch or q.shape[2:] != k.shape[2:]:
            raise InvalidShape(f"query: is {q.type} of shape {q.shape}, which does not fit keys of {k.type} and "
                               f"{k.shape}")
        problem.query_heads = q.shape[1]
        places += [("query", q, _ROWS), ("query_out", to, _ROWS)]
    problem.strided_columns = int(any(x.strides[3] != 1 for _, x, axes in places if axes == _ROWS and x.shape[3] > 1))
    tensors = lib.new("clattn_append_host_tensors")
    for name, found, axes in places + norms:
        place(tensors, name, found, axes)
    check(lib.clattn_append_host((context or default_context()).handle, ctypes.byref(problem), None,
                                 ctypes.byref(tensors)))
    for scales in (key_scales, value_scales):
        for array in scales[:2] if isinstance(scales, Scales) else ():
            is_written(array)
    for cache in (key_cache, value_cache):
        is_written(cache)
    return result


# ---- codes ----


def _scales_of(scales: Any, shape: Tuple[int, ...], kind: str) -> Tuple[Any, int]:
    """(dense scales or None, columns that share one)"""
    import numpy
    if scales is None:
        return None, 0
    if not CODES[kind].takes_scales:
        raise InvalidArgument(f"scales: {kind} has its own, in its blocks")
    found = numpy.ascontiguousarray(scales, dtype=numpy.float32)
    groups = found.shape[-1] if found.ndim else 0
    if found.shape[:-1] != shape[:-1] or not groups or shape[-1] % groups:
        raise InvalidShape(f"scales: has shape {found.shape}; must be {shape[:-1]} and a number that divides "
                           f"{shape[-1]}")
    return found, shape[-1] // groups


def _code(kind: Any) -> Any:
    if kind not in CODES:
        raise InvalidArgument(f"type {kind!r}: must be one of {', '.join(CODES)}")
    return CODES[kind]


def quantise(values: Any, type: str, *, scales: Any = None) -> Any:
    """Numbers [..., columns] as codes: bytes [..., bytes of a row]; int8 of "int8". "int8", "e4m3", "e5m2", "int4"
    (two columns a byte) by scales [..., groups of columns], 1 where None; blocks ("q8_0", "q4_0", "q4_1", "q5_0",
    "q5_1", "mxfp4_ggml", of 64 columns "nvfp4_ggml") have their own, and 32 columns each."""
    import numpy
    code = _code(type)
    found = numpy.ascontiguousarray(values, dtype=numpy.float32)
    if not found.ndim or found.shape[-1] % code.columns:
        raise InvalidShape(f"values: has shape {found.shape}; rows of {type} have a multiple of {code.columns} columns")
    dense, share = _scales_of(scales, found.shape, type)
    out = numpy.empty(found.shape[:-1] + (found.shape[-1] // code.columns * code.bytes,),
                      numpy.int8 if type == "int8" else numpy.uint8)
    if found.size:  # blocks and groups of columns lie one behind the other: all rows are one
        check(lib.clattn_quantise(STORED[code.name], found.size, found.ctypes.data,
                                  None if dense is None else dense.ctypes.data, share, out.ctypes.data))
    return out


def _row_scales(scales: Scales, columns: int) -> Any:
    """The struct of the library; columns of a group of columns."""
    zeros = scales.zero_points.ctypes.data if scales.zero_points is not None else None
    return lib.structs["clattn_row_scales"](scales.scales.ctypes.data, zeros, columns, scales.tensor_scale)


def quantise_rows(values: Any, type: str, *, columns: int = 0, tensor_scale: float = 1.0) -> Tuple[Any, Scales]:
    """Numbers [..., columns] as codes of "u8", "u4", "mxfp8", "mxfp4" or "nvfp4", and the Scales that were made of
    them: [..., groups of `columns` columns]; 0: all of the row. "nvfp4" takes the scale of the tensor."""
    import numpy
    code = _code(type)
    if not code.makes_scales:
        raise InvalidArgument(f"type {type!r}: has no scales that are made beside its codes; use quantise()")
    found = numpy.ascontiguousarray(values, dtype=numpy.float32)
    if not found.ndim or found.shape[-1] % code.columns:
        raise InvalidShape(f"values: has shape {found.shape}; rows of {type} have a multiple of {code.columns} columns")
    lead, width = found.shape[:-1], found.shape[-1]
    share = code.scale_columns or whole(columns, "columns") or max(width, 1)
    groups = lead + (-(-width // share),)
    out = numpy.empty(lead + (width // code.columns,), numpy.uint8)
    made = Scales(numpy.empty(groups, numpy.uint8 if code.scale_columns else numpy.float32),
                  numpy.empty(groups, numpy.float32) if code.has_zero_points else None, tensor_scale)
    for row in numpy.ndindex(*lead):
        of = _row_scales(Scales(made.scales[row], made.zero_points[row] if code.has_zero_points else None,
                                tensor_scale), share)
        check(lib.clattn_quantise_row(STORED[code.name], width, found[row].ctypes.data, 1, ctypes.byref(of),
                                      out[row].ctypes.data))
    return out, made


def dequantise_rows(codes: Any, type: str, scales: Scales) -> Any:
    """The float32 numbers of what quantise_rows() gives."""
    import numpy
    code = _code(type)
    found = numpy.ascontiguousarray(codes)
    beside = numpy.ascontiguousarray(scales.scales)
    zeros = None if scales.zero_points is None else numpy.ascontiguousarray(scales.zero_points, dtype=numpy.float32)
    lead, width = found.shape[:-1], found.shape[-1] * code.columns
    share = code.scale_columns or -(-width // max(beside.shape[-1], 1))
    if beside.shape != lead + (-(-width // max(share, 1)),) or (zeros is not None and zeros.shape != beside.shape) or \
            beside.dtype != (numpy.uint8 if code.scale_columns else numpy.float32) or found.dtype != numpy.uint8:
        raise InvalidShape(f"scales: {beside.dtype} of shape {beside.shape} do not fit codes of {type}, {found.dtype} "
                           f"of shape {found.shape}")
    out = numpy.empty(lead + (width,), numpy.float32)
    for row in numpy.ndindex(*lead):
        of = _row_scales(Scales(beside[row], None if zeros is None else zeros[row], scales.tensor_scale), share)
        check(lib.clattn_dequantise_row(STORED[code.name], width, found[row].ctypes.data, ctypes.byref(of),
                                        out[row].ctypes.data))
    return out


def dequantise(codes: Any, type: str, *, scales: Any = None) -> Any:
    """The float32 numbers of what quantise() gives."""
    import numpy
    code = _code(type)
    found = numpy.ascontiguousarray(codes)
    if found.dtype not in (numpy.uint8, numpy.int8) or not found.ndim or found.shape[-1] % code.bytes:
        raise InvalidShape(f"codes: {found.dtype} of shape {found.shape}; must be bytes, {code.bytes} a block of "
                           f"{type}")
    shape = found.shape[:-1] + (found.shape[-1] // code.bytes * code.columns,)
    dense, share = _scales_of(scales, shape, type)
    out = numpy.empty(shape, numpy.float32)
    if out.size:
        check(lib.clattn_dequantise(STORED[code.name], out.size, found.ctypes.data,
                                    None if dense is None else dense.ctypes.data, share, out.ctypes.data))
    return out
