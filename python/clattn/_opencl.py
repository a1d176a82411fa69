"""pyopencl's arrays: computed on their own queue, in their own buffers, without waiting and without a copy."""
import ctypes
import threading
from collections import OrderedDict
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import pyopencl
import pyopencl.array

from . import _library as lib
from ._arrays import TYPES, View, view
from ._attention import call_of
from ._errors import InvalidArgument, check
from ._fields import _ROWS, check_shapes, features_of, four_axes, optional_fields, output_field
from ._prepared import Field, place_elements
from ._problem import Options, problem_of

_KEPT_CONTEXTS, _KEPT_PLANS = 8, 64
_lock = threading.Lock()
_contexts: "OrderedDict[Any, _Owned]" = OrderedDict()
_plans: "OrderedDict[Any, _Owned]" = OrderedDict()


class _Owned:
    """A handle of the library; `keeps` lives as long."""

    def __init__(self, handle: Any, destroy: Any, keeps: Any):
        self.handle, self.destroy, self.keeps = handle, destroy, keeps

    def __del__(self) -> None:
        self.destroy(self.handle)


def _kept(cache: "OrderedDict[Any, _Owned]", most: int, key: Any, make: Callable[[], _Owned]) -> _Owned:
    with _lock:
        if key not in cache:
            cache[key] = make()
            while len(cache) > most:
                cache.popitem(last=False)
        cache.move_to_end(key)
        return cache[key]


def _context_of(queue: Any) -> _Owned:
    cl, device = queue.context, queue.device

    def make() -> _Owned:
        handle = ctypes.c_void_p()
        check(lib.clattn_context_create(cl.int_ptr, device.int_ptr, None, ctypes.byref(handle)))
        return _Owned(handle, lib.clattn_context_destroy, cl)

    return _kept(_contexts, _KEPT_CONTEXTS, (cl.int_ptr, device.int_ptr), make)


def _plan_of(context: _Owned, every: Sequence[Field], options: Options) -> _Owned:
    identity = (context.handle.value, tuple((name, found[1:4]) for name, found, _ in every), options)

    def make() -> _Owned:
        kinds = {name: found for name, found, _ in every}
        problem = problem_of(kinds["query"], kinds["key"], kinds["value"], features_of(every),
                             {name: found.type for name, found in kinds.items()}, options)
        out = kinds["out"]
        problem.out_type = TYPES[out.type]
        problem.strided_columns |= out.strides[3] != 1 and out.shape[3] > 1
        plan = ctypes.c_void_p()
        check(lib.clattn_plan_create(context.handle, ctypes.byref(problem), ctypes.byref(plan)))
        return _Owned(plan, lib.clattn_plan_destroy, context)

    return _kept(_plans, _KEPT_PLANS, identity, make)


def _place(tensors: Any, name: str, found: View, axes: Tuple[int, ...]) -> None:
    field = getattr(tensors, name)
    field.buffer = found.address
    place_elements(field, found, axes)


def attention(query: Any, key: Any, value: Any, arrays: Mapping[str, Any], options: Options, scale: Optional[float],
              seed: int, out: Any, return_lse: bool) -> Any:
    """As clattn.attention; `arrays`: by name, what optional_fields knows of them, of pyopencl too."""
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
    fields = optional_fields((batch, heads, rows, k.shape[2]), q.type, arrays, cl)
    every: List[Field] = [("query", q, _ROWS), ("key", k, _ROWS), ("value", v, _ROWS), *fields, *outputs]
    plan = _plan_of(_context_of(queue), every, options)
    tensors = lib.new("clattn_tensors")
    for name, found, places in every:
        _place(tensors, name, found, places)
    workspace_bytes = lib.clattn_plan_workspace(plan.handle)
    read_write = pyopencl.mem_flags.READ_WRITE
    workspace = pyopencl.Buffer(queue.context, read_write, workspace_bytes) if workspace_bytes else None
    tensors.workspace = workspace.int_ptr if workspace else None
    waits = [event for _, found, _ in every for event in getattr(found.owner, "events", ())]
    handles = (ctypes.c_void_p * len(waits))(*[event.int_ptr for event in waits]) if waits else None
    done, call = ctypes.c_void_p(), call_of(k.shape[2], scale, seed)
    check(lib.clattn_enqueue_forward(plan.handle, queue.int_ptr, ctypes.byref(call), ctypes.byref(tensors), len(waits),
                                     handles, ctypes.byref(done)))
    event = pyopencl.Event.from_int_ptr(int(done.value or 0), False)
    for result in results:
        result.add_event(event)
    return out if len(results) == 1 else tuple(results)
