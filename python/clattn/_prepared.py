"""What is kept of calls, so that others like them need nothing but their addresses."""
import ctypes
import sys
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from . import _library as lib
from ._arrays import View
from ._context import Context
from ._errors import check
from ._problem import KEPT

Field = Tuple[str, View, Tuple[int, ...]]  # of the struct of tensors; a view; which axes of the field are the view's


def place(tensors: Any, name: str, found: View, axes: Tuple[int, ...] = (0, 1, 2, 3)) -> None:
    """Sets the field of a clattn_host_tensors; `axes`: which of its four each axis of the view is."""
    field = field_of(tensors, name)
    field.data = found.address or None
    place_elements(field, found, axes)


def field_of(tensors: Any, name: str) -> Any:
    """The field of a clattn_host_tensors, or, named as "code_tensors[1]", one of several."""
    several, bracket, index = name.partition("[")
    return getattr(tensors, several)[int(index[:-1])] if bracket else getattr(tensors, name)


def place_elements(field: Any, found: View, axes: Tuple[int, ...]) -> None:
    """Sets where the elements of a tensor are, from its beginning. The stride of one column is never used, so that it
    may be the 1 that the library wants."""
    field.offset = found.offset
    for axis, stride, count in zip(axes, found.strides, found.shape):
        field.stride[axis] = 1 if axis == 3 and count == 1 else stride


class Prepared:
    """A problem and the tensors of its calls, in which only addresses change. Structs in use are out of the list."""

    def __init__(self, problem: Any, fields: Sequence[Field]):
        self.problem = problem
        self.reference = ctypes.byref(problem)
        # of no call's memory, which would live as long
        self.fields = [(name, found._replace(address=0, owner=None), axes) for name, found, axes in fields]
        self.free: List[Tuple[Any, List[Any]]] = []

    def _tensors(self) -> Tuple[Any, List[Any]]:
        """A struct, and those fields of it whose addresses a call sets, in their order."""
        tensors = lib.new("clattn_host_tensors")
        for name, found, axes in self.fields:
            place(tensors, name, found, axes)
        return ctypes.byref(tensors), [field_of(tensors, name) for name, _, _ in self.fields]

    def compute(self, context: Context, call: Any, addresses: Iterable[int]) -> None:
        """One blocking call; `call`: a pointer to a clattn_call; an address for each of the fields."""
        try:
            given = self.free.pop()
        except IndexError:
            given = self._tensors()
        tensors, fields = given
        for field, address in zip(fields, addresses):
            field.data = address
        status = context.forward_host(context.target, self.reference, call, tensors)
        if status:
            check(status)
        self.free.append(given)


_prepared: "OrderedDict[Any, Prepared]" = OrderedDict()


def prepared_for(identity: Any, make: Callable[[], Prepared]) -> Prepared:
    """What was made for it, now or before."""
    found = _prepared.get(identity)
    if found is None:
        found = _prepared[identity] = make()
        while len(_prepared) > KEPT:
            try:
                _prepared.popitem(last=False)
            except KeyError:  # another thread was faster
                break
    return found


class Again:
    """A call that was made: what another one needs whose arrays have the same types, shapes and strides."""

    def __init__(self, prepared: Prepared, call: Any, address_of: Callable[[Any], int],
                 new: Sequence[Callable[[], Any]]):
        """`address_of` an array; `new`: each makes an array of results."""
        self.prepared, self.call, self.address_of, self.new = prepared, ctypes.byref(call), address_of, new

    def compute(self, context: Context, arrays: Iterable[Any]) -> List[Any]:
        """The results that are new; `arrays` are the library's fields before them, in their order."""
        results = [make() for make in self.new]
        self.prepared.compute(context, self.call, [*map(self.address_of, arrays), *map(self.address_of, results)])
        return results


class MadeBefore:
    """Calls that were made, by what tells them apart."""

    def __init__(self) -> None:
        self.calls: Dict[Any, Again] = {}

    def find(self, identity: Any) -> Optional[Again]:
        try:
            return self.calls.get(identity)
        except TypeError:  # something in it that may change, like a list
            return None

    def keep(self, identity: Any, again: Again) -> None:
        if len(self.calls) >= KEPT:  # a decoder's cache grows by a row each step
            self.calls.clear()
        self.calls[identity] = again


# ---- arrays of NumPy ----

of_numpy = MadeBefore()
_PLAIN = {bool, int, float, str, type(None)}  # which do not change


def numpy_address(array: Any) -> int:
    """By the buffer protocol where that gives it, in less than half the time of the array interface."""
    if array.flags.carray and array.size:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(array))
        except ValueError:  # a type that the protocol has no word for: bfloat16
            pass
    address: int = array.__array_interface__["data"][0]
    return address


def identity_of(said: Tuple[Any, ...], arrays: Sequence[Any]) -> Optional[Tuple[Any, ...]]:
    """What tells a call apart, of what is said in words and numbers and of arrays or Nones; None where an array is not
    plainly NumPy's. True, 1 and 1.0 are equal, so that types belong to it."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    plainly = numpy.ndarray
    found: List[Any] = [said, tuple(map(type, said))]
    for array in arrays:
        if type(array) is plainly:
            found.append((array.dtype, array.shape, array.strides))
        elif array is None:
            found.append(None)
        else:
            return None
    return tuple(found)


def is_kept(said: Iterable[Any], prepared: Prepared) -> bool:
    """Whether the same words mean the same call again, and an array's address is that of its first element."""
    return _PLAIN.issuperset(map(type, said)) and not any(found.offset for _, found, _ in prepared.fields)
