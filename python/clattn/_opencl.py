"""pyopencl's arrays: computed on their own queue, in their own buffers, without waiting and without a copy."""
import ctypes
import threading
from collections import OrderedDict

import pyopencl
import pyopencl.array

from . import _library as lib
from ._arrays import TYPES, view
from ._attention import (_ROWS, call_of, check_shapes, features_of, four_axes, optional_fields, output_field,
                         place_elements)
from ._errors import InvalidArgument, check
from ._problem import problem_of

_KEPT_CONTEXTS, _KEPT_PLANS = 8, 64
_lock = threading.Lock()
_contexts = OrderedDict()
_plans = OrderedDict()


class _Owned:
    """A handle of the library; `keeps` lives as long."""

    def __init__(self, handle, destroy, keeps):
        self.handle, self.destroy, self.keeps = handle, destroy, keeps

    def __del__(self):
        self.destroy(self.handle)


def _kept(cache, most, key, make):
    with _lock:
        if key not in cache:
            cache[key] = make()
            while len(cache) > most:
                cache.popitem(last=False)
        cache.move_to_end(key)
        return cache[key]


def _context_of(queue):
    cl, device = queue.context, queue.device

    def make():
        handle = ctypes.c_void_p()
        check(lib.clattn_context_create(cl.int_ptr, device.int_ptr, None, ctypes.byref(handle)))
        return _Owned(handle, lib.clattn_context_destroy, cl)

    return _kept(_contexts, _KEPT_CONTEXTS, (cl.int_ptr, device.int_ptr), make)


def _plan_of(context, every, options):
    identity = (context.handle.value, tuple((name, found[1:4]) for name, found, _ in every), options)

    def make():
        kinds = {name: found for name, found, _ in every}
        problem = problem_of(kinds["query"], kinds["key"], kinds["value"], features_of(every),
                             kinds["bias"].type if "bias" in kinds else None, options)
        out = kinds["out"]
        problem.out_type = TYPES[out.type]
        problem.strided_columns |= out.strides[3] != 1 and out.shape[3] > 1
        plan = ctypes.c_void_p()
        check(lib.clattn_plan_create(context.handle, ctypes.byref(problem), ctypes.byref(plan)))
        return _Owned(plan, lib.clattn_plan_destroy, context)

    return _kept(_plans, _KEPT_PLANS, identity, make)


def _place(tensors, name, found, axes):
    field = getattr(tensors, name)
    field.buffer = found.address
    place_elements(field, found, axes)


def attention(query, key, value, arrays, options, scale, seed, out, return_lse):
    """As clattn.attention; `arrays`: mask, bias, slopes, sinks, of pyopencl too."""
    queue = query.queue
    if queue is None:
        raise InvalidArgument("query: has no queue; make the array with one")
    cl = queue.context.int_ptr
    q = view(query, "query", cl)
    axes = len(q.shape)
    q, k, v = (four_axes(found, name) for found, name in ((q, "query"), (view(key, "key", cl), "key"),
                                                          (view(value, "value", cl), "value")))
    check_shapes(q, k, v)
    batch, heads, rows, _ = q.shape
    shape = (batch, heads, rows, v.shape[3])
    out = pyopencl.array.empty(queue, shape[4 - axes:], query.dtype) if out is None else out
    results, outputs = [out], [output_field(out, "out", shape, tuple(TYPES), cl)]
    if return_lse:
        results.append(pyopencl.array.empty(queue, shape[4 - axes:3], "float32"))
        outputs.append(output_field(results[1], "lse", shape[:3], ("float32",), cl))
    fields = optional_fields((batch, heads, rows, k.shape[2]), batch, heads, *arrays, None, None, cl)
    every = [("query", q, _ROWS), ("key", k, _ROWS), ("value", v, _ROWS), *fields, *outputs]
    plan = _plan_of(_context_of(queue), every, options)
    tensors = lib.new("clattn_tensors")
    for name, found, places in every:
        _place(tensors, name, found, places)
    workspace_bytes = lib.clattn_plan_workspace(plan.handle)
    workspace = pyopencl.Buffer(queue.context, pyopencl.mem_flags.READ_WRITE, workspace_bytes) if workspace_bytes else None
    tensors.workspace = workspace.int_ptr if workspace else None
    waits = [event for _, found, _ in every for event in getattr(found.owner, "events", ())]
    handles = (ctypes.c_void_p * len(waits))(*[event.int_ptr for event in waits]) if waits else None
    done, call = ctypes.c_void_p(), call_of(q, k, scale, seed)
    check(lib.clattn_enqueue_forward(plan.handle, queue.int_ptr, ctypes.byref(call), ctypes.byref(tensors), len(waits),
                                     handles, ctypes.byref(done)))
    event = pyopencl.Event.from_int_ptr(done.value, False)
    for result in results:
        result.add_event(event)
    return out if len(results) == 1 else tuple(results)
