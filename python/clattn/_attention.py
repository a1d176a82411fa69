"""The high-level call: arrays of any package in, one call of the library."""
import ctypes
import functools
from collections import OrderedDict

from . import _library as lib
from ._arrays import TYPES, View, empty, view
from ._context import default_context
from ._errors import InvalidArgument, InvalidShape, check

_ALIGNMENTS = {"top-left": lib.CLATTN_ALIGN_TOP_LEFT, "bottom-right": lib.CLATTN_ALIGN_BOTTOM_RIGHT}
_WEIGHTS = {"scores": lib.CLATTN_WEIGHTS_SCORES, "softcap": lib.CLATTN_WEIGHTS_SOFTCAP,
            "logits": lib.CLATTN_WEIGHTS_LOGITS, "softmax": lib.CLATTN_WEIGHTS_SOFTMAX}
_OUT_TYPES = ("float32", "float16", "bfloat16", "float64")
_KEPT = 256  # problems with everything that a call needs but the addresses


def alignment_of(causal, alignment, has_offsets):
    """The alignment that a call asks for, by its three ways to say so."""
    for name, value in (("causal", causal), ("alignment", alignment)):
        if value not in (None, False) and value not in _ALIGNMENTS:
            raise InvalidArgument(f'{name} {value!r}: must be "top-left", "bottom-right" or None; which rows stand at '
                                  "which keys is never guessed from shapes")
    if causal and alignment and causal != alignment:
        raise InvalidArgument(f"causal {causal!r} and alignment {alignment!r}: must be the same where both are given")
    if has_offsets:
        if alignment or (causal and causal != "bottom-right"):
            raise InvalidArgument("offsets: say where rows stand; alignment, or causal=\"top-left\", would say it again")
        return lib.CLATTN_ALIGN_OFFSETS
    return _ALIGNMENTS.get(causal or alignment, lib.CLATTN_ALIGN_UNSET)


def window_of(window):
    """(left, right) of None, a number (so many keys before, and none behind the diagonal), or a pair with None or -1
    for no bound."""
    if window is None:
        return -1, -1
    left, right = (window, 0) if isinstance(window, int) else window
    return -1 if left is None else left, -1 if right is None else right


def problem_of(query, key, value, features, kind_of_bias, options):
    """The clattn_problem of three views of four axes; `options` are those of options_of."""
    batch, heads, rows, columns = query.shape
    problem = lib.new("clattn_problem", type=TYPES[query.type], batch=batch, query_heads=heads, kv_heads=key.shape[1],
                      query_len=rows, key_len=key_maximum(rows, key.shape[2]), head_dim=columns,
                      head_dim_v=value.shape[3], features=features, bias_type=TYPES.get(kind_of_bias, 0), **dict(options))
    if key.type != query.type:
        problem.key_type = TYPES[key.type]
    if value.type != query.type:
        problem.value_type = TYPES[value.type]
    problem.strided_columns = any(v.strides[3] != 1 and v.shape[3] > 1 for v in (query, key, value))
    return problem


def key_maximum(rows, keys):
    """The key_len of a plan. While a decoder's cache grows, the plan stays: few rows, and lengths to the next power of
    two."""
    return keys if rows > 8 or keys == 0 else max(128, 1 << (keys - 1).bit_length())


def four_axes(found, name):
    """A view of two to four axes as one of [batch, heads, rows, columns]."""
    count = len(found.shape)
    if count == 4:
        return found
    if count not in (2, 3):
        raise InvalidShape(f"{name}: has shape {found.shape}; must be [batch, heads, rows, columns], without batch, or "
                           "without both")
    lead = 4 - count
    return found._replace(shape=(1,) * lead + found.shape, strides=(0,) * lead + found.strides)


def check_shapes(query, key, value):
    """What the library could not see, since it has one number for each."""
    if key.shape[0] != query.shape[0] or value.shape[0] != query.shape[0]:
        raise InvalidShape(f"batch: query has {query.shape[0]}, key {key.shape[0]}, value {value.shape[0]}; must be equal")
    if key.shape[3] != query.shape[3]:
        raise InvalidShape(f"head_dim: query has {query.shape[3]} columns, key {key.shape[3]}; must be equal")
    if value.shape[1:3] != key.shape[1:3]:
        raise InvalidShape(f"key and value: heads and rows are {key.shape[1:3]} and {value.shape[1:3]}; must be equal")
    for name, found in (("query", query), ("key", key), ("value", value)):
        if found.type not in TYPES:
            raise InvalidArgument(f"{name}: type {found.type}; must be one of {', '.join(TYPES)}")


def broadcast(array, shape, name, opencl=0):
    """A view of the shape, with strides of 0 where the array has one element or lacks the axis."""
    found = view(array, name, opencl)
    lead = len(shape) - len(found.shape)
    given = (1,) * lead + found.shape
    if lead < 0 or any(own not in (1, wanted) for own, wanted in zip(given, shape)):
        raise InvalidShape(f"{name}: has shape {found.shape}, which does not broadcast to {tuple(shape)}")
    strides = (0,) * lead + found.strides
    strides = tuple(0 if own == 1 else stride for own, stride in zip(given, strides))
    return found._replace(shape=tuple(shape), strides=strides)


def float32(array):
    """The same numbers in float32: slopes and sinks, a number a head."""
    if isinstance(array, View):
        return array
    if type(array).__module__ == "pyopencl.array":
        return array.astype("float32")
    if hasattr(array, "data_ptr"):
        return array.detach().float()
    import numpy
    return numpy.asarray(array, dtype=numpy.float32)


def int32(values, count, name):
    """A ctypes array of `count` numbers."""
    numbers = [int(number) for number in values]
    if len(numbers) != count:
        raise InvalidShape(f"{name}: has {len(numbers)} numbers; must have {count}, one for each batch entry")
    return (ctypes.c_int32 * count)(*numbers)


def place(tensors, name, found, axes=(0, 1, 2, 3)):
    """Sets the field of a clattn_host_tensors; `axes`: which of its four each axis of the view is."""
    field = getattr(tensors, name)
    field.data = found.address or None
    place_elements(field, found, axes)


def place_elements(field, found, axes):
    """Sets where the elements of a tensor are, from its beginning. The stride of one column is never used, so that it
    may be the 1 that the library wants."""
    field.offset = found.offset
    for axis, stride, count in zip(axes, found.strides, found.shape):
        field.stride[axis] = 1 if axis == 3 and count == 1 else stride


class _Prepared:
    """A problem and the tensors of its calls, in which only addresses change. Structs in use are out of the list."""

    def __init__(self, problem, fields):
        self.problem = problem
        self.reference = ctypes.byref(problem)
        # (name, view, axes), of no call's memory, which would live as long
        self.fields = [(name, found._replace(address=0, owner=None), axes) for name, found, axes in fields]
        self.free = []

    def tensors(self):
        try:
            return self.free.pop()
        except IndexError:
            tensors = lib.new("clattn_host_tensors")
            for name, found, axes in self.fields:
                place(tensors, name, found, axes)
            return tensors


_prepared = OrderedDict()


def _keep(key, prepared):
    _prepared[key] = prepared
    while len(_prepared) > _KEPT:
        try:
            _prepared.popitem(last=False)
        except KeyError:  # another thread was faster
            break


_FEATURES = {"mask": lib.CLATTN_WITH_MASK, "slopes": lib.CLATTN_WITH_SLOPES, "sinks": lib.CLATTN_WITH_SINKS,
             "key_lengths": lib.CLATTN_WITH_KEY_LENGTHS, "lse": lib.CLATTN_WITH_LSE}
_ROWS, _HEADS, _HEAD, _DENSE = (0, 1, 2, 3), (0, 1), (1,), ()


def optional_fields(shape, batch, heads, mask, bias, slopes, sinks, key_lengths, offsets, opencl=0):
    """(name, view, axes) of the tensors that a call may have, as far as it has them. `opencl`: see view()."""
    fields = []
    if mask is not None:
        found = broadcast(mask, shape, "mask", opencl)
        if found.type not in ("bool", "uint8"):
            raise InvalidArgument(f"mask: type {found.type}; must be bool or uint8, True where a key may be seen; numbers "
                                  "that are added to the scores are a bias")
        fields.append(("mask", found, _ROWS))
    if bias is not None:
        found = broadcast(bias, shape, "bias", opencl)
        if found.type not in _OUT_TYPES:
            raise InvalidArgument(f"bias: type {found.type}; must be one of {', '.join(_OUT_TYPES)}")
        fields.append(("bias", found, _ROWS))
    if slopes is not None:
        fields.append(("slopes", broadcast(float32(slopes), (batch, heads), "slopes", opencl), _HEADS))
    if sinks is not None:
        fields.append(("sinks", broadcast(float32(sinks), (heads,), "sinks", opencl), _HEAD))
    for name, given in (("key_lengths", key_lengths), ("query_offsets", offsets)):
        if given is not None:
            numbers = int32(given, batch, name)
            owner = memoryview(numbers).cast("B")
            fields.append((name, _dense_view(ctypes.addressof(numbers), "int32", (batch,), (numbers, owner)), _DENSE))
    return fields


def _dense_view(address, kind, shape, owner):
    return View(address, kind, shape, (1,) * len(shape), owner)


def output_field(array, name, shape, kinds, opencl=0):
    """(name, view, axes) of an output, whose shape and type must be these. `opencl`: see view()."""
    found = view(array, name, opencl)
    if found.is_read_only:
        raise InvalidArgument(f"{name}: is read-only; give an array that may be written")
    if getattr(array, "requires_grad", False):
        raise InvalidArgument(f"{name}: requires a gradient, which writing to it would make wrong; give {name}.detach()")
    found = four_axes(found, name) if len(shape) == 4 else found
    if name == "lse" and len(found.shape) < 3:
        lead = 3 - len(found.shape)
        found = found._replace(shape=(1,) * lead + found.shape, strides=(0,) * lead + found.strides)
    if found.shape != tuple(shape) or found.type not in kinds:
        raise InvalidShape(f"{name}: is {found.type} of shape {found.shape}; must be {' or '.join(kinds)} of shape "
                           f"{tuple(shape)}")
    return name, found, _ROWS[:len(shape)]


def features_of(every):
    """The bits that the tensors of a call are in a problem."""
    return sum(_FEATURES.get(name, 0) for name, _, _ in every)


def run(context, query, key, value, fields, call, options, outputs):
    """One blocking call. `fields`, `outputs`: (name, view, axes)."""
    every = [("query", query, _ROWS), ("key", key, _ROWS), ("value", value, _ROWS), *fields, *outputs]
    identity = (tuple([(name, found[1:4]) for name, found, _ in every]),
                options)
    prepared = _prepared.get(identity)
    if prepared is None:
        features = features_of(every)
        kinds = {name: found.type for name, found, _ in every}
        problem = problem_of(query, key, value, features, kinds.get("bias"), options)
        out = outputs[0][1]
        problem.out_type = TYPES[out.type] if out.type != query.type else lib.CLATTN_TYPE_NONE
        problem.strided_columns |= out.strides[3] != 1 and out.shape[3] > 1
        prepared = _Prepared(problem, every)
        _keep(identity, prepared)
    tensors = prepared.tensors()
    for name, found, _ in every:
        getattr(tensors, name).data = found.address
    status = lib.clattn_forward_host(context.handle, prepared.reference, ctypes.byref(call), ctypes.byref(tensors))
    check(status)
    prepared.free.append(tensors)


_CALL = lib.new("clattn_call")


def call_of(query, key, scale, seed=0):
    """The clattn_call of these views."""
    call = type(_CALL).from_buffer_copy(_CALL)
    call.key_len = key.shape[2]
    call.dropout_seed = seed
    if scale is not None:
        call.has_scale, call.scale = 1, scale
    return call


@functools.lru_cache(_KEPT)
def options_of(causal=None, alignment=None, has_offsets=False, window=None, always_visible_keys=0, softcap=None,
               dropout=0.0, weights=None, strategy=None):
    """Fields of the problem, as pairs of names and values."""
    left, right = window_of(window)
    if weights and weights not in _WEIGHTS:
        raise InvalidArgument(f"return_weights {weights!r}: must be one of {', '.join(_WEIGHTS)}")
    return (("causal", int(bool(causal))), ("alignment", alignment_of(causal, alignment, has_offsets)),
            ("window_left", left), ("window_right", right), ("always_visible_keys", always_visible_keys),
            ("softcap", softcap or 0.0), ("dropout", dropout), ("weights", _WEIGHTS[weights] if weights else 0),
            *([("strategy", _text(strategy))] if strategy else []))


_texts = {}


def _text(name):
    """The address of a C string that stays."""
    if name not in _texts:
        _texts[name] = ctypes.create_string_buffer(name.encode())
    return ctypes.addressof(_texts[name])


def _refuse_gradients(**arrays):
    """Raises where a result without gradients would surprise."""
    for name, array in arrays.items():
        if getattr(array, "requires_grad", False):
            import torch
            if torch.is_grad_enabled():
                raise InvalidArgument(f"{name}: requires a gradient, which clattn.attention has not; call "
                                      f"clattn.torch.attention, or this under torch.no_grad(), or give {name}.detach()")


def attention(query, key, value, *, mask=None, bias=None, causal=None, alignment=None, offsets=None, window=None,
              always_visible_keys=0, scale=None, softcap=None, slopes=None, sinks=None, key_lengths=None, dropout=0.0,
              seed=0, out=None, return_lse=False, return_weights=None, strategy=None, context=None):
    """softmax(scale * query key^T + bias, masked) value, on the device of `context`.

    Arrays are NumPy's, torch tensors on the CPU, or any that has __dlpack__ or __array_interface__. On a device that
    shares the host's memory nothing is copied, whatever the strides. Arrays of pyopencl are computed on their own queue,
    without waiting. Nothing is differentiated: that is clattn.torch.attention.

    query, key, value   [batch, heads, rows, columns], [batch, kv_heads, keys, columns], [batch, kv_heads, keys,
                        columns of a value]; without batch, or without both; heads is a multiple of kv_heads. float32,
                        float16, bfloat16 or float64; keys and values also int8 and 8-bit floats
    mask                broadcasts to [batch, heads, rows, keys]; bool or uint8: True where a row sees a key
    bias                the same, numbers that are added to scores
    causal              None, "bottom-right" (the last row sees the last key) or "top-left" (row 0 sees key 0)
    offsets             numbers, one a batch entry: at which key row 0 stands, in place of an alignment
    alignment           the same two words, for windows and slopes without causal
    window              keys before a row that it sees, or (before, behind), None for no bound
    always_visible_keys so many first keys pass the window
    scale               1 / sqrt(columns) where None; any finite number
    softcap             scores become softcap * tanh(score / softcap)
    slopes, sinks       [heads]: ALiBi's slopes, also [batch, heads]; a further logit without a value
    key_lengths         numbers, one a batch entry: keys behind it are not seen
    dropout, seed       the probability that a weight is dropped, and the seed of which
    out                 an array to write to, of the shape of the result and of a floating-point type; else a new one
    return_lse          also returns ln(sum(exp(logits))) [batch, heads, rows], float32
    return_weights      "scores", "softcap", "logits" or "softmax": also returns [batch, heads, rows, keys] of it

    A row that sees no key is 0, its lse -inf. Returns out, or (out, lse), (out, weights), (out, lse, weights). Raises
    InvalidShape, InvalidArgument (ValueErrors), Unsupported (a NotImplementedError), OutOfMemory, Error.
    """
    window = tuple(window) if isinstance(window, list) else window
    options = options_of(causal, alignment, offsets is not None, window, always_visible_keys, softcap, dropout,
                         return_weights, strategy)
    if type(query).__module__ == "pyopencl.array":
        if not (key_lengths is offsets is return_weights is context is None):
            raise InvalidArgument("key_lengths, offsets, return_weights, context: not with arrays of pyopencl")
        from . import _opencl
        return _opencl.attention(query, key, value, (mask, bias, slopes, sinks), options, scale, seed, out, return_lse)
    _refuse_gradients(query=query, key=key, value=value, bias=bias, slopes=slopes, sinks=sinks)
    q = view(query, "query")
    axes = len(q.shape)
    q, k, v = four_axes(q, "query"), four_axes(view(key, "key"), "key"), four_axes(view(value, "value"), "value")
    check_shapes(q, k, v)
    batch, heads, rows, _ = q.shape
    fields = ()
    if not (mask is bias is slopes is sinks is key_lengths is offsets is None):
        fields = optional_fields((batch, heads, rows, k.shape[2]), batch, heads, mask, bias, slopes, sinks, key_lengths,
                                 offsets)
    shape = (batch, heads, rows, v.shape[3])
    if out is None:
        out = empty(query, shape[4 - axes:], q.type)
    outputs, results = [output_field(out, "out", shape, _OUT_TYPES)], [out]
    if return_lse:
        results.append(empty(query, shape[4 - axes:3], "float32"))
        outputs.append(output_field(results[-1], "lse", shape[:3], ("float32",)))
    if return_weights:
        kind = "float64" if q.type == "float64" else "float32"
        results.append(empty(query, shape[4 - axes:3] + (k.shape[2],), kind))
        outputs.append(output_field(results[-1], "weights", shape[:3] + (k.shape[2],), (kind,)))
    run(context or default_context(), q, k, v, fields, call_of(q, k, scale, seed), options, outputs)
    return results[0] if len(results) == 1 else tuple(results)


class Plan:
    """Attention of fixed shapes, planned and compiled before its first call.

        plan = clattn.Plan((1, 8, 512, 64), causal="bottom-right")
        out = plan(query, key, value)

    query_shape [batch, heads, rows, columns]; key_shape [batch, kv_heads, keys, columns], the same where None; type as
    NumPy names it; options are those of attention() that are no arrays. A call takes arrays of these shapes and what
    else attention() takes; what was not planned for (a mask, say) is planned then.
    """

    def __init__(self, query_shape, key_shape=None, *, type="float32", head_dim_v=0, context=None, **options):
        self.query_shape, self.key_shape = tuple(query_shape), tuple(key_shape or query_shape)
        self.context = context or default_context()
        self.options = options
        planned = {name: options[name] for name in ("causal", "alignment", "window", "softcap", "strategy") if
                   name in options}
        #: Several lines of text: the strategy, its tiles, why not another.
        self.explanation = explain(self.query_shape, self.key_shape, type=type, head_dim_v=head_dim_v,
                                   lse=options.get("return_lse", False), context=self.context, **planned)

    def __call__(self, query, key, value, **arrays):
        """As attention(query, key, value, ...) with the plan's options."""
        for name, array, shape in (("query", query, self.query_shape), ("key", key, self.key_shape)):
            if tuple(array.shape) != shape:
                raise InvalidShape(f"{name}: has shape {tuple(array.shape)}; the plan is for {shape}")
        return attention(query, key, value, context=self.context, **self.options, **arrays)


def explain(query_shape, key_shape=None, *, type="float32", head_dim_v=0, causal=None, alignment=None, window=None,
            softcap=None, mask=False, lse=False, strategy=None, context=None):
    """How attention of such shapes is computed: the strategy, its tiles, what happens to host memory, and why not
    another, as the text of `clattn explain`.

    query_shape [batch, heads, rows, columns]; key_shape [batch, kv_heads, keys, columns], the same where None.
    """
    context = context or default_context()
    key_shape = key_shape or query_shape
    options = options_of(causal, alignment, False, window, 0, softcap, 0.0, None, strategy)
    features = (lib.CLATTN_WITH_MASK if mask else 0) | (lib.CLATTN_WITH_LSE if lse else 0)
    if type not in TYPES:
        raise InvalidArgument(f"type {type!r}: must be one of {', '.join(TYPES)}")
    problem = lib.new("clattn_problem", type=TYPES[type], batch=query_shape[0], query_heads=query_shape[1],
                      kv_heads=key_shape[1], query_len=query_shape[2], key_len=key_shape[2], head_dim=query_shape[3],
                      head_dim_v=head_dim_v, features=features, **dict(options))
    plan = ctypes.c_void_p()
    check(lib.clattn_plan_create(context.handle, ctypes.byref(problem), ctypes.byref(plan)))
    try:
        return lib.clattn_plan_explain(plan).decode()
    finally:
        lib.clattn_plan_destroy(plan)
