"""The high-level call: arrays of any package in, one call of the library."""
import ctypes
import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import _library as lib
from ._arrays import TYPES, View, maker_of, view
from ._code import written
from ._context import Context, default_context
from ._derivatives import is_written, refuse_gradients
from ._errors import InvalidArgument, InvalidShape, check
from ._fields import _OUT_TYPES, _ROWS, features_of, four_axes, masked_fields, output_field
from ._prepared import Again, Field, Prepared, identity_of, is_kept, numpy_address, of_numpy, prepared_for
from ._problem import Options, key_maximum, number, options_of, problem_of, refuse_words, whole, wholes
from ._sequences import NAMES, sequences_of


def run(context: Context, query: View, key: View, value: View, fields: Sequence[Field], call: Any, options: Options,
        outputs: Sequence[Field]) -> Prepared:
    """One blocking call; what it had prepared computes others like it."""
    values = [] if ("value_in_key", 1) in options else [("value", value, _ROWS)]
    every = [("query", query, _ROWS), ("key", key, _ROWS), *values, *fields, *outputs]
    identity = tuple([(name, found[1:4]) for name, found, _ in every]), options

    def prepare() -> Prepared:
        kinds = {name: found.type for name, found, _ in every}
        problem = problem_of(query, key, value, features_of(every), kinds, options)
        out = outputs[0][1]
        problem.out_type = TYPES[out.type] if out.type != query.type else lib.CLATTN_TYPE_NONE
        problem.strided_columns |= out.strides[3] != 1 and out.shape[3] > 1
        return Prepared(problem, every)

    prepared = prepared_for(identity, prepare)
    prepared.compute(context, ctypes.byref(call), [found.address for _, found, _ in every])
    return prepared


_CALL = lib.new("clattn_call")


def call_of(keys: int, scale: Optional[float], seed: int = 0) -> Any:
    """The clattn_call of so many keys, those of the longest sequence: a plan may be for more (key_maximum)."""
    call = type(_CALL).from_buffer_copy(_CALL)
    call.key_len = keys
    call.dropout_seed = whole(seed, "seed", 64, least=0)
    if scale is not None:
        call.has_scale, call.scale = 1, number(scale, "scale")
    return call


def attention(query: Any, key: Any, value: Any, *, mask: Any = None, bias: Any = None, causal: Optional[str] = None,
              alignment: Optional[str] = None, offsets: Optional[Iterable[int]] = None, window: Any = None,
              always_visible_keys: int = 0, scale: Optional[float] = None, softcap: Optional[float] = None,
              slopes: Any = None, sinks: Any = None, key_lengths: Optional[Iterable[int]] = None, dropout: float = 0.0,
              seed: int = 0, out: Any = None, return_lse: bool = False, return_weights: Optional[str] = None,
              strategy: Optional[str] = None, allow_rounded_weights: bool = False, allow_tf32: bool = False,
              cu_query: Any = None, cu_key: Any = None, page_table: Any = None, page_starts: Any = None,
              row_low: Any = None, row_high: Any = None, key_type: Optional[str] = None,
              value_type: Optional[str] = None, key_scales: Any = None, value_scales: Any = None,
              key_lists: Any = None, list_rows: Optional[int] = None, value_in_key: Optional[int] = None,
              mask_first_key: int = 0, score: Optional[str] = None, inputs: Optional[Dict[str, Any]] = None,
              context: Optional[Context] = None, **others: Any) -> Any:
    """softmax(scale * query key^T + bias, masked) value, on the device of `context`.

    Arrays are NumPy's, torch tensors on the CPU, or any that has __dlpack__ or __array_interface__. On a device that
    shares the host's memory nothing is copied, whatever the strides. Arrays of pyopencl are computed on their own
    queue, without waiting. Nothing is differentiated: that is clattn.torch.attention.

    query, key, value   [batch, heads, rows, columns], [batch, kv_heads, keys, columns], [batch, kv_heads, keys,
                        columns of a value]; without batch, or without both; heads is a multiple of kv_heads. float32,
                        float16, bfloat16 or float64; keys and values also int8 and 8-bit floats
    mask                broadcasts to [batch, heads, rows, keys]; bool or uint8: True where a row sees a key; or uint32,
                        [.., ceil(keys / 32)]: key j is bit j % 32 of word j / 32. Or a text in OpenCL C, an expression
                        of b, h, i and j: "j <= POSITION(i)"; or the function clattn_mask
    mask_first_key      mask and bias are of the keys from this one on; keys before it pass the mask
    score               such a text, of s too, that becomes the score: "s - SCALAR(rate) * TO_NUMBER(j)"; or the
                        function clattn_score. docs/scores.md has the words of texts
    inputs              {name: array or number}, what a text has as LOAD(name, index) and SCALAR(name)
    bias                the same, numbers that are added to scores
    causal              None, "bottom-right" (the last row sees the last key) or "top-left" (row 0 sees key 0)
    offsets             numbers, one a batch entry: at which key row 0 stands, in place of an alignment
    alignment           the same two words, for windows and slopes without causal
    window              keys before a row that it sees, or (before, behind), None for no bound
    always_visible_keys so many first keys pass the window
    scale               1 / sqrt(columns) where None; any finite number
    softcap             scores become softcap * tanh(score / softcap)
    slopes, sinks       [heads]: ALiBi's slopes, also [batch, heads]; a further logit without a value. Rounded to
                        float32, but float64 beside float64 queries
    key_lengths         numbers, one a batch entry: keys behind it are not seen
    dropout, seed       the probability that a weight is dropped, and the seed of which
    out                 an array to write to, of the shape of the result and of a floating-point type; else a new one
    return_lse          also returns ln(sum(exp(logits))) [batch, heads, rows], float32
    return_weights      "scores", "softcap", "logits" or "softmax": also returns [batch, heads, rows, keys] of it
    strategy            the name of one, as explain() tells; the best where None
    allow_rounded_weights   of float16 and bfloat16: a matrix unit may round softmax weights to 16 bits, as PyTorch and
                        FlashAttention do: faster, and less accurate. False: they are as good as float32
    allow_tf32          of float32: a matrix unit may round queries, keys, values and weights to the 11 bits of tf32
    cu_query, cu_key    packed sequences, one behind the other in query [1, heads, rows, columns] and key: numbers,
                        where each begins, and the last one ends; cu_key as cu_query where None. A mask or bias then is
                        of [sequences, heads, rows of the longest, keys of the longest]
    page_table          [batch, pages], or [batch, kv_heads, pages], of int32: keys lie in pages, of which each sequence
                        has these; key is [pages, kv_heads, rows of a page, columns]. Needs key_lengths. -1: a hole
    page_starts         numbers: the table is one line, in which the pages of each sequence begin, and the last one's
                        end
    row_low, row_high   broadcast to [batch, heads, rows], int32: a row sees the keys from the one up to the other
    key_type, value_type   what the bytes of key and value are: "q8_0", "q4_0", "q4_1", "q5_0", "q5_1",
                        "mxfp4_ggml", "nvfp4_ggml", "int8", "e4m3", "e5m2", "int4", "u8", "u4", "mxfp8", "mxfp4",
                        "nvfp4"; the last axis counts bytes, of blocks and of codes of four bits. quantise() and
                        quantise_rows() make them
    key_scales, value_scales   float32, of int8, e4m3, e5m2, int4: [batch or pages, kv_heads, rows, columns], of which
                        the last two may have fewer: so many share one. A clattn.Scales where more lies beside the
                        codes: u8, u4, nvfp4
    key_lists, list_rows   [batch, kv_heads, rows / list_rows, n] of int32: `list_rows` neighbouring rows (1 where None)
                        see the keys of these numbers, besides all masks; -1 ends a list, and no key stands twice in it
    value_in_key        with value None: values are so many first columns of key, as in latent attention, and read once
    context             a clattn.Context, which has a device; the process's own where None

    A row that sees no key is 0, its lse -inf. Returns out, or (out, lse), (out, weights), (out, lse, weights). Raises
    InvalidShape, InvalidArgument (ValueErrors), Unsupported (a NotImplementedError), OutOfMemory, Error.
    """
    said = (causal, alignment, window, always_visible_keys, scale, softcap, dropout, seed, return_lse, return_weights,
            strategy, allow_rounded_weights, allow_tf32, mask_first_key)
    more = dict(zip(NAMES, (cu_query, cu_key, page_table, page_starts, row_low, row_high, key_type, value_type,
                            key_scales, value_scales, key_lists, list_rows, value_in_key)))
    code = written(score, mask if isinstance(mask, str) else None, inputs)
    mask = None if isinstance(mask, str) else mask
    has_more = code is not None or any(x is not None for x in more.values())
    if others:
        refuse_words("attention", others)
    identity = None
    if not has_more and slopes is sinks is key_lengths is offsets is None:  # those take a form of the call's
        arrays = query, key, value, mask, bias, out
        identity = identity_of(said, arrays)
        again = of_numpy.find(identity)
        if again is not None and (out is None or out.flags.writeable):
            new = again.compute(context or default_context(), [x for x in arrays if x is not None])
            return _returned(_results(out, new))
    learned = {"bias": bias, "slopes": slopes, "sinks": sinks}
    options = options_of(causal, alignment, offsets is not None, window, always_visible_keys, softcap, dropout,
                         return_weights, strategy, allow_rounded_weights, allow_tf32)
    if type(query).__module__ == "pyopencl.array":
        if has_more or mask_first_key or any(x is not None for x in (key_lengths, offsets, return_weights, context)):
            raise InvalidArgument("key_lengths, offsets, return_weights, context, mask_first_key, texts, and what is "
                                  "packed, in pages or codes: not with arrays of pyopencl")
        from . import _opencl
        return _opencl.attention(query, key, value, dict(learned, mask=mask), options, scale, seed, out, return_lse)
    refuse_gradients("attention", query=query, key=key, value=value, scale=scale, softcap=softcap, **learned)
    q = view(query, "query")
    axes = len(q.shape)
    if (value is None) != (value_in_key is not None):
        raise InvalidArgument("value: must be an array, or None where value_in_key says how many columns of key it is")
    q, k = four_axes(q, "query"), four_axes(view(key, "key"), "key")
    v = k if value is None else four_axes(view(value, "value"), "value")
    of = sequences_of(q, k, v, key_lengths, more)
    q, k, v, heads = of.query, of.key, of.value, q.shape[1]
    more_fields, more_options = masked_fields((of.batch, heads, of.rows, of.keys), q.type, mask_first_key, dict(
        learned, mask=mask, key_lengths=key_lengths, offsets=offsets))
    fields, options = [*of.fields, *more_fields], options + more_options
    shape, kind = q.shape[:3] + v.shape[3:], "float64" if q.type == "float64" else "float32"
    wanted: List[Tuple[str, Tuple[int, ...], Tuple[str, ...]]] = [
        ("out", shape, _OUT_TYPES if out is not None else (q.type,))]
    if return_lse:
        wanted.append(("lse", shape[:3], ("float32",)))
    if return_weights:
        wanted.append(("weights", (of.batch, heads, of.rows, of.keys), (kind,)))
    new = [maker_of(query, extents[4 - axes:], kinds[0]) for _, extents, kinds in wanted[out is not None:]]
    results = _results(out, [make() for make in new])
    for array, (name, _, _) in zip(results, wanted):
        if of.is_packed and array is not out:
            array[...] = -math.inf if name == "lse" else 0.0
    outputs = [output_field(array, *each) for array, each in zip(results, wanted)]
    call = call_of(of.keys, scale, seed)
    call.mask_first_key = mask_first_key
    if code is not None:
        fields, options = [*fields, *code.fields], options + code.options
        call.code_scalars[:len(code.scalars)] = code.scalars
    prepared = run(context or default_context(), q, k, v, fields, call, options + of.options, outputs)
    if identity is not None and is_kept(said, prepared):
        of_numpy.keep(identity, Again(prepared, call, numpy_address, new))
    if out is not None:
        is_written(out)
    return _returned(results)


def _results(out: Any, new: List[Any]) -> List[Any]:
    """What a call computes: the array that it was given to write to, if any, and those that are new."""
    return new if out is None else [out, *new]


def _returned(results: List[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


class Plan:
    """Attention of fixed shapes, planned and compiled before its first call.

        plan = clattn.Plan((1, 8, 512, 64), causal="bottom-right")
        out = plan(query, key, value)

    query_shape [batch, heads, rows, columns]; key_shape [batch, kv_heads, keys, columns], the same where None; type as
    NumPy names it; options are those of attention() that are no arrays. A call takes arrays of these shapes and what
    else attention() takes; what was not planned for (a mask, say) is planned then.
    """

    def __init__(self, query_shape: Sequence[int], key_shape: Optional[Sequence[int]] = None, *, type: str = "float32",
                 head_dim_v: int = 0, context: Optional[Context] = None, **options: Any):
        self.query_shape, self.key_shape = tuple(query_shape), tuple(key_shape or query_shape)
        self.context = context or default_context()
        self.options = options
        wrong = sorted(set(options) - {*_PLANNED, "scale", "seed", "return_lse", "return_weights"})
        if wrong:
            raise TypeError(f"Plan() has no option {wrong[0]!r}; those of attention() that are no arrays are its "
                            "options")
        batch, kv_heads, keys, columns = four_numbers(self.key_shape, "key_shape")
        self.value_shape = batch, kv_heads, keys, head_dim_v or columns
        keys = key_maximum(four_numbers(self.query_shape, "query_shape")[2], keys)  # for which a call plans
        planned = {name: options[name] for name in _PLANNED if name in options}
        #: Several lines of text: the strategy, its tiles, why not another.
        self.explanation = explain(self.query_shape, (batch, kv_heads, keys, columns), type=type, head_dim_v=head_dim_v,
                                   lse=options.get("return_lse", False), context=self.context, **planned)

    def __call__(self, query: Any, key: Any, value: Any, **arrays: Any) -> Any:
        """As attention(query, key, value, ...) with the plan's options."""
        for name, array, shape in (("query", query, self.query_shape), ("key", key, self.key_shape),
                                   ("value", value, self.value_shape)):
            if tuple(array.shape) != shape:
                raise InvalidShape(f"{name}: has shape {tuple(array.shape)}; the plan is for {shape}")
        return attention(query, key, value, context=self.context, **self.options, **arrays)


_PLANNED = ("causal", "alignment", "window", "always_visible_keys", "softcap", "dropout", "strategy",
            "allow_rounded_weights", "allow_tf32")


def four_numbers(shape: Sequence[int], name: str) -> List[int]:
    """A shape's, which must be so many."""
    if len(shape) != 4:
        raise InvalidShape(f"{name}: is {tuple(shape)}; must be [batch, heads, rows, columns]")
    return wholes(shape, name, 64)


def explain(query_shape: Sequence[int], key_shape: Optional[Sequence[int]] = None, *, type: str = "float32",
            head_dim_v: int = 0, causal: Optional[str] = None, alignment: Optional[str] = None, window: Any = None,
            always_visible_keys: int = 0, softcap: Optional[float] = None, dropout: float = 0.0, mask: bool = False,
            lse: bool = False, strategy: Optional[str] = None, allow_rounded_weights: bool = False,
            allow_tf32: bool = False, context: Optional[Context] = None) -> str:
    """How attention of such shapes is computed: the strategy, its tiles, what happens to host memory, and why not
    another, as the text of `clattn explain`.

    query_shape [batch, heads, rows, columns]; key_shape [batch, kv_heads, keys, columns], the same where None;
    head_dim_v, columns of a value, the same where 0; mask, lse: whether there is one; the rest as in attention().
    """
    context = context or default_context()
    batch, heads, rows, columns = four_numbers(query_shape, "query_shape")
    kv_heads, keys = four_numbers(key_shape or query_shape, "key_shape")[1:3]
    options = options_of(causal, alignment, False, window, always_visible_keys, softcap, dropout, None, strategy,
                         allow_rounded_weights, allow_tf32)
    features = (lib.CLATTN_WITH_MASK if mask else 0) | (lib.CLATTN_WITH_LSE if lse else 0)
    if type not in TYPES:
        raise InvalidArgument(f"type {type!r}: must be one of {', '.join(TYPES)}")
    problem = lib.new("clattn_problem", type=TYPES[type], batch=batch, query_heads=heads, kv_heads=kv_heads,
                      query_len=rows, key_len=keys, head_dim=columns, head_dim_v=whole(head_dim_v, "head_dim_v"),
                      features=features, **dict(options))
    plan = ctypes.c_void_p()
    check(lib.clattn_plan_create(context.handle, ctypes.byref(problem), ctypes.byref(plan)))
    try:
        return str(lib.clattn_plan_explain(plan).decode())
    finally:
        lib.clattn_plan_destroy(plan)
