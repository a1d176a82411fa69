"""Attention whose rows and keys lie on the ranks of an mpi4py communicator: clattn_mpi.h on arrays.

    ranks = clattn.mpi.Ranks(MPI.COMM_WORLD)
    out = ranks.attention(query, key, value, layout="zigzag", causal="top-left")   # of this rank's rows

Needs libclattn_mpi (CLATTN_MPI_LIBRARY names its file), built with the MPI that mpi4py has.
"""
import ctypes
import os
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from mpi4py import MPI

from . import _library as lib
from ._arrays import View, maker_of, view
from ._attention import call_of, run
from ._context import Context, default_context
from ._derivatives import refuse_gradients
from ._errors import InvalidArgument, InvalidShape, error_of
from ._fields import check_shapes, four_axes, optional_fields, output_field, three_axes
from ._gradients import check_results, run_backward
from ._prepared import Field
from ._problem import Options, number, options_of, refuse_words

_NAMES = ("libclattn_mpi.so.0", "libclattn_mpi.0.dylib")
_LAYOUTS = {"contiguous": 0, "zigzag": 1, "striped": 2}  # clattn_ring_layout
_ALGORITHMS = {"auto": 0, "keys": 1, "queries": 2, "heads": 4}  # clattn_ring_algorithm
_INPUTS = ("query", "key", "value")
_SAID = {"causal", "alignment", "window", "always_visible_keys", "softcap", "dropout", "allow_rounded_weights",
         "allow_tf32"}


def _load() -> ctypes.CDLL:
    """libclattn_mpi, whose libclattn is the one that is loaded, and whose MPI is mpi4py's."""
    named = os.environ.get("CLATTN_MPI_LIBRARY")
    reasons = []
    for name in [named] if named else _NAMES:
        try:
            found = ctypes.CDLL(name)
            break
        except OSError as error:
            reasons.append(str(error))
    else:
        raise lib.LibraryNotFound("clattn: libclattn_mpi was not found; install it, or set CLATTN_MPI_LIBRARY to its "
                                  "file:" + "".join(f"\n  {reason}" for reason in reasons))
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    found.MPI_Get_library_version(text, ctypes.byref(length))
    own, theirs = text.value.decode(errors="replace"), MPI.Get_library_version()
    if own.rstrip("\0") != theirs.rstrip("\0"):
        raise lib.LibraryNotFound(f"clattn: libclattn_mpi was built with {_line(own)}, and mpi4py has {_line(theirs)}; "
                                  "both must have the same MPI")
    pointer = ctypes.c_void_p
    for function, result, arguments in (
            ("create", ctypes.c_int, [_COMMUNICATOR, pointer, pointer]), ("destroy", None, [pointer]),
            ("last_error", ctypes.c_char_p, [pointer]), ("explain", ctypes.c_char_p, [pointer]),
            ("forward", ctypes.c_int, [pointer, pointer, ctypes.c_int, ctypes.c_int, pointer, pointer]),
            ("backward", ctypes.c_int, [pointer, pointer, ctypes.c_int, ctypes.c_int, pointer, pointer, pointer]),
            ("decode", ctypes.c_int, [pointer, pointer, pointer, pointer])):
        declared = getattr(found, f"clattn_mpi_{function}")
        declared.restype, declared.argtypes = result, arguments
    return found


def _line(text: str) -> str:
    return text.splitlines()[0] if text else "an MPI without a name"


# A communicator of C: a pointer, as Open MPI has it, or an int.
_COMMUNICATOR = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int
_mpi = _load()


def rows_of(communicator: Any, array: Any, layout: str = "contiguous", axis: int = -2) -> Any:
    """This rank's part of a NumPy array of the whole, in the order of a layout: a new array."""
    import numpy
    numbers = [n for piece in _pieces(layout, communicator.size, communicator.rank, numpy.shape(array)[axis])
               for n in piece]
    return numpy.ascontiguousarray(numpy.take(array, numbers, axis=axis))


def _pieces(layout: str, ranks: int, rank: int, length: int) -> List[range]:
    """clattn_ring_pieces."""
    _word(layout, "layout", _LAYOUTS)
    pieces, count = (lib.structs["clattn_ring_piece"] * 2)(), ctypes.c_int()
    status = lib.functions["clattn_ring_pieces"](_LAYOUTS[layout], ranks, rank, length, ctypes.byref(pieces),
                                                 ctypes.byref(count))
    if status:
        raise error_of(status, lib.functions["clattn_last_error"]())
    return [range(of.first, of.first + of.step * of.count, of.step) for of in pieces[:count.value]]


def _word(value: str, name: str, words: Dict[str, int]) -> int:
    if value not in words:
        raise InvalidArgument(f"{name} {value!r}: must be one of {', '.join(words)}")
    return words[value]


def _part(array: Any, name: str) -> View:
    """A view of four axes. NumPy gives arrays without elements, as ranks without rows have them, strides of 0."""
    found = four_axes(view(array, name), name)
    return found if all(found.shape) else found._replace(strides=(0, 0, found.shape[3], 1))


class _Given(NamedTuple):
    """What a rank says of a call."""

    query: View
    key: View
    value: View
    axes: int  # of the query as it was given
    layout: int
    algorithm: int
    is_decoding: bool
    fields: List[Field]
    call: Any  # the clattn_call
    options: Options


def _lengths(given: _Given, counts: Sequence[Tuple[int, int]]) -> Tuple[int, int]:
    """Rows and keys of the whole, of which each rank has so many; raises where they are not as the layout says."""
    rows = counts[0][0] if given.is_decoding else sum(count[0] for count in counts)
    keys = sum(count[1] for count in counts)
    layout = list(_LAYOUTS)[given.layout]
    for rank, count in enumerate(counts):
        wanted = tuple(sum(map(len, _pieces(layout, len(counts), rank, length))) for length in (rows, keys))
        wanted = (rows, wanted[1]) if given.is_decoding else wanted
        if count != wanted:
            raise InvalidShape(f"rank {rank}: has {count[0]} rows and {count[1]} keys; layout {layout!r} gives it "
                               f"{wanted[0]} and {wanted[1]} of {rows} and {keys}, as rows_of() does")
    return rows, keys


class _Ring:
    """What calls on arrays ask of a context: its functions play the schedule."""

    def __init__(self, target: Any, given: _Given):
        self.target, self._how, self._is_decoding = target, (given.layout, given.algorithm), given.is_decoding

    def forward_host(self, target: Any, problem: Any, call: Any, tensors: Any) -> int:
        return self._check(_mpi.clattn_mpi_decode(target, problem, call, tensors) if self._is_decoding else
                           _mpi.clattn_mpi_forward(target, problem, *self._how, call, tensors))

    def backward_host(self, target: Any, problem: Any, call: Any, tensors: Any, gradients: Any) -> int:
        return self._check(_mpi.clattn_mpi_backward(target, problem, *self._how, call, tensors, gradients))

    def _check(self, status: int) -> int:
        if status:
            raise error_of(status, _mpi.clattn_mpi_last_error(self.target))
        return status


class Ranks:
    """The ranks of an mpi4py communicator, each with a device: that of `context`, the process's own where None.

    Every method but explain() is collective: all ranks call it with the same options, each with its own arrays of
    NumPy, or of what else clattn.attention() takes. What is wrong on one rank raises on all. MPI must have been begun
    with MPI_THREAD_FUNNELED at least, as mpi4py does, and calls come from that thread. `with Ranks(...)` closes it.
    """

    def __init__(self, communicator: Any, context: Optional[Context] = None):
        self._communicator = communicator
        self._context = context or default_context()  # must live as long
        self._handle = ctypes.c_void_p()
        handle = _COMMUNICATOR.from_address(MPI._addressof(communicator))
        status = _mpi.clattn_mpi_create(handle, self._context.handle, ctypes.byref(self._handle))
        if status:
            raise error_of(status, b"MPI: was begun without MPI_THREAD_FUNNELED; see mpi4py.rc.thread_level")

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Frees the duplicate of the communicator. Collective; nothing else may be called afterwards."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        _mpi.clattn_mpi_destroy(handle)

    def explain(self) -> str:
        """What this rank did in the last call: the algorithm, and why it was taken."""
        return str(_mpi.clattn_mpi_explain(self._handle).decode())

    def attention(self, query: Any, key: Any, value: Any, *, layout: str = "contiguous", algorithm: str = "auto",
                  mask: Any = None, bias: Any = None, slopes: Any = None, sinks: Any = None,
                  key_lengths: Optional[Iterable[int]] = None, offsets: Optional[Iterable[int]] = None,
                  scale: Optional[float] = None, seed: int = 0, return_lse: bool = False, **said: Any) -> Any:
        """clattn.attention() of the whole: the rows of this rank's queries, or (out, lse).

        query, key, value   this rank's part, in the order of the layout: what rows_of() gives
        layout              "contiguous", "zigzag" (the same work on all ranks with a causal mask) or "striped"
        algorithm           "auto" (what is estimated to be the fastest), "keys" (they go around the ring), "queries"
                            (few rows on many keys), "heads" (each rank gets all rows of its heads)
        mask, bias          of this rank's rows and all keys of the whole, in their own order
        scale, seed         as clattn.attention() has them, and so have the rest, causal, alignment, window,
                            always_visible_keys, softcap, dropout, slopes, sinks, key_lengths and offsets: of the whole
        """
        optional = {"mask": mask, "bias": bias, "slopes": slopes, "sinks": sinks, "key_lengths": key_lengths,
                    "offsets": offsets}
        return self._forward((query, key, value), layout, algorithm, optional, said, scale, seed, return_lse)

    def decode(self, query: Any, key: Any, value: Any, *, mask: Any = None, bias: Any = None, slopes: Any = None,
               sinks: Any = None, key_lengths: Optional[Iterable[int]] = None, offsets: Optional[Iterable[int]] = None,
               scale: Optional[float] = None, return_lse: bool = False, **said: Any) -> Any:
        """As attention(), where every rank has all queries and a contiguous part of the keys: all get all of out, to
        the same bits, after log2(ranks) messages."""
        optional = {"mask": mask, "bias": bias, "slopes": slopes, "sinks": sinks, "key_lengths": key_lengths,
                    "offsets": offsets}
        return self._forward((query, key, value), "contiguous", "auto", optional, said, scale, 0, return_lse,
                             is_decoding=True)

    def gradients(self, query: Any, key: Any, value: Any, out: Any, lse: Any, dout: Any, *, dlse: Any = None,
                  layout: str = "contiguous", algorithm: str = "auto", mask: Any = None, bias: Any = None,
                  slopes: Any = None, sinks: Any = None, key_lengths: Optional[Iterable[int]] = None,
                  offsets: Optional[Iterable[int]] = None, scale: Optional[float] = None, seed: int = 0,
                  **said: Any) -> Dict[str, Any]:
        """clattn.gradients() of the whole: {name: this rank's part} of query, key and value. out and lse are what
        attention() gave for this rank's rows, dout and dlse a loss's derivatives there."""
        optional = {"mask": mask, "bias": bias, "slopes": slopes, "sinks": sinks, "key_lengths": key_lengths,
                    "offsets": offsets}
        arrays = {"query": query, "key": key, "value": value}

        def read(given: _Given) -> Tuple[Dict[str, Any], List[Any]]:
            refuse_gradients("clattn.mpi.Ranks.gradients", out=out, dout=dout, dlse=dlse)
            made = {name: maker_of(array, view(array, name).shape, view(array, name).type)()
                    for name, array in arrays.items()}
            results: List[Any] = [_part(out, "out"), three_axes(lse, "lse"), _part(dout, "dout"),
                                  None if dlse is None else three_axes(dlse, "dlse")]
            check_results(given.query, given.value, *results)
            return made, results
        given, (made, (out, lse, dout, dlse)) = self._read((query, key, value), layout, algorithm, optional, said,
                                                           scale, seed, read)
        ring: Any = _Ring(self._handle, given)
        run_backward(ring, given.query, given.key, given.value, given.fields, given.call, given.options, out, lse, dout,
                     {f"d{name}": _part(array, name) for name, array in made.items()}, dlse)
        found: Dict[str, Any] = made
        return found

    def _forward(self, arrays: Tuple[Any, Any, Any], layout: str, algorithm: str, optional: Dict[str, Any],
                 said: Dict[str, Any], scale: Optional[float], seed: int, return_lse: bool,
                 is_decoding: bool = False) -> Any:
        def read(given: _Given) -> Tuple[List[Any], List[Field]]:
            shape = given.query.shape[:3] + given.value.shape[3:]
            wanted = [("out", shape, (given.query.type,)), ("lse", shape[:3], ("float32",))][:1 + return_lse]
            results = [maker_of(arrays[0], extents[4 - given.axes:], kinds[0])() for _, extents, kinds in wanted]
            outputs = [output_field(array, *each) for array, each in zip(results, wanted)]
            outputs[0] = ("out", _part(results[0], "out"), outputs[0][2])
            return results, outputs
        given, (results, outputs) = self._read(arrays, layout, algorithm, optional, said, scale, seed, read,
                                               is_decoding)
        ring: Any = _Ring(self._handle, given)
        run(ring, given.query, given.key, given.value, given.fields, given.call, given.options, outputs)
        return tuple(results) if return_lse else results[0]

    def _read(self, arrays: Tuple[Any, Any, Any], layout: str, algorithm: str, optional: Dict[str, Any],
              said: Dict[str, Any], scale: Optional[float], seed: int, read_more: Callable[[_Given], Any],
              is_decoding: bool = False) -> Tuple[_Given, Any]:
        """This rank's own call, and what read_more() makes of it; raises on all ranks where one is wrong."""
        def read() -> Tuple[Tuple[_Given, Any], Tuple[int, int]]:
            if set(said) - _SAID:
                refuse_words("clattn.mpi.Ranks.attention", {name: said[name] for name in set(said) - _SAID})
            refuse_gradients("clattn.mpi.Ranks.attention", query=arrays[0], key=arrays[1], value=arrays[2],
                             **{name: optional[name] for name in ("bias", "slopes", "sinks")})
            axes = len(view(arrays[0], "query").shape)
            q, k, v = (_part(array, name) for array, name in zip(arrays, _INPUTS))
            check_shapes(q, k, v)
            # Lengths of the call are the problem's: a schedule has no others.
            call = call_of(-1, None if scale is None else number(scale, "scale"), seed)
            given = _Given(q, k, v, axes, _word(layout, "layout", _LAYOUTS),
                           _word(algorithm, "algorithm", _ALGORITHMS), is_decoding, [], call,
                           options_of(has_offsets=optional["offsets"] is not None, **said))
            return (given, read_more(given)), (q.shape[2], k.shape[2])
        (given, more), counts = self._all(read)

        def read_whole() -> Tuple[_Given, None]:
            rows, keys = _lengths(given, counts)
            fields = optional_fields((*given.query.shape[:3], keys), given.query.type, optional)
            options = given.options + (("query_len", rows), ("key_len", keys))
            return given._replace(fields=fields, options=options), None
        return self._all(read_whole)[0], more

    def _all(self, read: Callable[[], Tuple[Any, Any]]) -> Tuple[Any, List[Any]]:
        """The first that read() gives, and the second of each rank; where it raises on one rank, all raise, so that
        none waits for it."""
        found, told, wrong = None, None, None
        try:
            found, told = read()
        except Exception as error:  # of any kind: all ranks wait here
            wrong = error
        every = self._communicator.allgather((wrong is not None, told))
        if wrong is not None:
            raise wrong
        for rank, (is_wrong, _) in enumerate(every):
            if is_wrong:
                raise InvalidArgument(f"rank {rank}: its call is wrong, as its own error says")
        return found, [told for _, told in every]
