"""Devices, and the context of the process."""
import ctypes
import os
import threading
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _library as lib
from ._errors import Forked, InvalidArgument, check


class Context:
    """One device, or several, and what was compiled for it.

    device: "gpu", "cpu", "accelerator", "PLATFORM:DEVICE" as devices() numbers them, or part of a name; None: the
    environment variable CLATTN_DEVICE, else the first GPU, else accelerator, else CPU. A list of names, or "0:0+1:0":
    calls on arrays, and their gradients, are divided among these devices (docs/ranks.md); plans, caches, queues and
    key_sums() are the first one's. May be used by many threads.
    """

    def __init__(self, device: Union[str, Sequence[str], None] = None):
        names = device if isinstance(device, str) or device is None else "+".join(device)
        wanted = os.environ.get("CLATTN_DEVICE") if names is None else names
        several = "+" in (wanted or "")
        self.target = ctypes.c_void_p()  # of calls on arrays
        opens, self._destroy = ((lib.clattn_group_open, lib.clattn_group_destroy) if several else
                                (lib.clattn_context_open, lib.clattn_context_destroy))
        check(opens(names.encode() if names else None, None, ctypes.byref(self.target)))
        self.handle = ctypes.c_void_p(lib.clattn_group_context(self.target, 0)) if several else self.target
        self.forward_host, self.backward_host = (
            (lib.clattn_group_forward_host, lib.clattn_group_backward_host) if several else
            (lib.clattn_forward_host, lib.clattn_backward_host))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._destroy(self.target)

    def __copy__(self) -> "Context":
        """Itself: a second object with its handle would destroy it a second time."""
        return self

    def __deepcopy__(self, _: Any) -> "Context":
        return self

    def __reduce__(self) -> Any:
        raise InvalidArgument("a Context belongs to its process: it cannot be pickled; make another where it is needed")

    @property
    def bytes_copied(self) -> int:
        """Bytes that calls have copied between arrays and the device so far; those that are used in place have none."""
        return int(lib.clattn_bytes_copied(self.handle))


_default: Optional[Context] = None
_default_pid = 0
_lock = threading.Lock()


def default_context() -> Context:
    """The context that calls take which name none; made by the first of them."""
    global _default, _default_pid
    if _default is not None and _default_pid == os.getpid():
        return _default
    with _lock:
        if _default is None:
            _default, _default_pid = Context(), os.getpid()
        if _default_pid != os.getpid():
            raise Forked("this process was forked after its parent had used clattn, and OpenCL does not survive that; "
                         "begin processes by spawn, or call clattn first in the child")
    return _default


def devices() -> List[Dict[str, Any]]:
    """What there is on this machine: a list of dicts as `clattn devices --json` has them (numbers, names, types, what
    each can do, which one is chosen)."""
    import json  # which `import clattn` need not wait for
    text = ctypes.c_void_p()
    check(lib.clattn_describe_devices(1, ctypes.byref(text)))
    try:
        found: List[Dict[str, Any]] = json.loads(ctypes.string_at(text).decode())["devices"]
        return found
    finally:
        lib.clattn_free(text)
