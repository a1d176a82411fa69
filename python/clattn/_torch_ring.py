"""clattn.torch.ring_attention: a sequence whose rows lie on several processes, each with a part of queries, keys and
values. Keys and values go around the ring (Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers",
2023): in step t a rank attends with its rows to the keys of the rank t before it, while these go on to the next one.
Partial results are of float32, and merged in float64 in the order of the steps. In the backward pass gradients of keys
and values go around with their keys, and home at the end."""
import zlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from ._arrays import torch_view
from ._attention import call_of, run
from ._context import default_context
from ._errors import Error, InvalidArgument, InvalidShape, Unsupported
from ._fields import broadcast, optional_fields
from ._gradients import run_backward
from ._problem import number, options_of, refuse_words, whole, window_of
from ._torch_calls import count, last_derivatives, outputs, served, views

_LAYOUTS = "contiguous", "zigzag"


class Said(NamedTuple):
    """What all ranks must say alike."""

    layout: str
    causal: str
    alignment: str
    window_left: int
    window_right: int
    always_visible_keys: int
    scale: Optional[float]
    softcap: float
    dropout: float
    rounded: bool
    tf32: bool
    key_lengths: Tuple[int, ...]


class Piece(NamedTuple):
    """Rows that follow each other in the sequence: the first one there, and which rows of the rank's part they are."""

    start: int
    low: int
    high: int


class Shape(NamedTuple):
    """The whole sequence, cut into equal parts."""

    ranks: int
    rows: int  # of a part; so is the next
    keys: int


def pieces(layout: str, ranks: int, rank: int, length: int) -> List[Piece]:
    """A rank's part: as it follows, or, where causal masks would give the first ranks less to do, the rank's piece from
    the front and its piece from the back of twice as many ("zigzag")."""
    if layout == "contiguous":
        return [Piece(rank * length, 0, length)]
    half = length // 2
    return [Piece(rank * half, 0, half), Piece((2 * ranks - 1 - rank) * half, half, length)]


def _lengths(said: Said, shape: Shape) -> Tuple[int, ...]:
    """Keys of the sequences: one for each batch entry, or one for all."""
    return said.key_lengths or (shape.ranks * shape.keys,)


def _offset(said: Said, shape: Shape, length: int) -> int:
    """At which key row 0 of a sequence of so many keys stands."""
    return length - shape.ranks * shape.rows if "bottom-right" in (said.causal, said.alignment) else 0


def _sequence_sees(said: Said, offset: int, length: int, rows: Piece, keys: Piece) -> bool:
    first, last = rows.start + offset, rows.start + rows.high - rows.low - 1 + offset
    last_key = min(keys.start + keys.high - keys.low, length) - 1
    right = 0 if said.causal else said.window_right
    if rows.high == rows.low or last_key < keys.start or (right >= 0 and keys.start > last + right):
        return False
    return said.window_left < 0 or last_key >= first - said.window_left or keys.start < said.always_visible_keys


def _may_see(said: Said, shape: Shape, rows: Piece, keys: Piece) -> bool:
    """Whether some row may see some of the keys, by causal mask, window and lengths."""
    return any(_sequence_sees(said, _offset(said, shape, length), length, rows, keys)
               for length in _lengths(said, shape))


def steps_of(said: Said, shape: Shape) -> int:
    """How far keys must go: the last step in which some rank sees some of them, and one."""
    steps = 1
    for step in range(1, shape.ranks):
        for rank in range(shape.ranks):
            for rows in pieces(said.layout, shape.ranks, rank, shape.rows):
                for keys in pieces(said.layout, shape.ranks, (rank - step) % shape.ranks, shape.keys):
                    if _may_see(said, shape, rows, keys):
                        steps = step + 1
    return steps


# ---- messages ----

class Exchange:
    """Tensors on their way to the rank `shift` further on, and those that come from as far before."""

    def __init__(self, group: Any, tensor: Tensor, shift: int):
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        peers = [(rank + step) % ranks for step in (shift, -shift)]
        to, source = peers if group is None else [dist.get_global_rank(group, peer) for peer in peers]
        self.sent, self.received = tensor, torch.empty_like(tensor)
        self.works = dist.batch_isend_irecv([dist.P2POp(dist.isend, self.sent, to, group),
                                             dist.P2POp(dist.irecv, self.received, source, group)])

    def wait(self) -> Tensor:
        for work in self.works:
            work.wait()
        return self.received


def _join(*tensors: Tensor) -> Tensor:
    return torch.cat([x.flatten() for x in tensors])


def _part(joined: Tensor, *shapes: Sequence[int]) -> List[Tensor]:
    sizes = [torch.Size(shape).numel() for shape in shapes]
    return [x.view(torch.Size(shape)) for x, shape in zip(joined.split(sizes), shapes)]


def _agree(group: Any, query: Tensor, key: Tensor, value: Tensor, said: Said, wrong: Optional[Error]) -> Shape:
    """Raises on every rank where one has to, so that none waits for one that has raised. `wrong`: why this one has."""
    own = torch.full((13,), -1, dtype=torch.int64)
    if wrong is None:
        own[:12] = torch.tensor([*query.shape, *key.shape, *value.shape])
        own[12] = zlib.crc32(repr((said, query.dtype)).encode())
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group)
    if wrong is not None:
        raise wrong
    for rank, other in enumerate(every):
        if other[0] < 0:
            raise InvalidArgument(f"rank {rank}: its call is wrong, as its own error says")
        if not torch.equal(other, every[0]):
            raise InvalidShape(f"rank {rank}: its tensors or its options are not those of rank 0; query, key and value "
                               f"must have the shapes {every[0][:12].view(3, 4).tolist()}, and every option be the "
                               "same")
    return Shape(len(every), query.shape[2], key.shape[2])


# ---- one step ----

class Step(NamedTuple):
    """Some of the rank's rows against some of a rank's keys."""

    rows: Piece
    keys: Piece
    is_own: bool  # the piece's own keys, with which sinks count


def _steps(said: Said, shape: Shape, rank: int, step: int, has_sinks: bool) -> Iterator[Step]:
    source = (rank - step) % shape.ranks
    for i, rows in enumerate(pieces(said.layout, shape.ranks, rank, shape.rows)):
        for j, keys in enumerate(pieces(said.layout, shape.ranks, source, shape.keys)):
            is_own = step == 0 and i == j
            if _may_see(said, shape, rows, keys) or (is_own and has_sinks):
                yield Step(rows, keys, is_own)


class _Call(NamedTuple):
    """What both directions give to the library for a step."""

    query: Any
    key: Any
    value: Any
    fields: Any
    call: Any
    options: Any


def _call(said: Said, shape: Shape, step: Step, query: Tensor, key: Tensor, value: Tensor, slopes: Optional[Tensor],
          sinks: Optional[Tensor], seed: int) -> _Call:
    rows, keys = step.rows, step.keys
    q, k, v = views(query[:, :, rows.low:rows.high], key[:, :, keys.low:keys.high], value[:, :, keys.low:keys.high])
    count_of_keys = keys.high - keys.low
    is_placed = bool(said.causal or said.alignment)
    places = [_offset(said, shape, length) for length in _lengths(said, shape)]
    offsets = [rows.start + x - keys.start for x in places] * (q.shape[0] // len(places)) if is_placed else None
    lengths = [min(max(x - keys.start, 0), count_of_keys) for x in said.key_lengths] if said.key_lengths else None
    fields = optional_fields((q.shape[0], q.shape[1], q.shape[2], count_of_keys), q.type, {
        "slopes": slopes, "sinks": sinks if step.is_own else None, "key_lengths": lengths, "offsets": offsets})
    call = call_of(count_of_keys, said.scale, seed)
    call.first_row, call.first_key = rows.start, keys.start
    always = min(max(said.always_visible_keys - keys.start, 0), count_of_keys)
    own = options_of("bottom-right" if said.causal else None, None, is_placed, (said.window_left, said.window_right),
                     always, said.softcap, said.dropout, allow_rounded_weights=said.rounded, allow_tf32=said.tf32)
    return _Call(q, k, v, fields, call, own)


def _attend(of: _Call) -> Tuple[Tensor, Tensor]:
    out = torch.empty((*of.query.shape[:3], of.value.shape[3]))  # of float32, whatever the type is
    lse = torch.empty(of.query.shape[:3])
    run(default_context(), of.query, of.key, of.value, of.fields, of.call, of.options, outputs((out, lse)))
    count(served, "ring")
    return out, lse


class _Sum:
    """Partial results as one, in float64."""

    def __init__(self, query: Tensor, columns: int):
        self.out = torch.zeros((*query.shape[:3], columns), dtype=torch.float64)
        self.lse = torch.full(query.shape[:3], float("-inf"), dtype=torch.float64)

    def add(self, rows: Piece, out: Tensor, lse: Tensor) -> None:
        place = slice(rows.low, rows.high)
        before, own = self.lse[:, :, place], lse.double()
        after = torch.logaddexp(before, own)
        shares = [torch.where(after == float("-inf"), 0.0, (x - after).exp()) for x in (before, own)]
        self.out[:, :, place] = self.out[:, :, place] * shares[0][..., None] + out.double() * shares[1][..., None]
        self.lse[:, :, place] = after


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, slopes: Optional[Tensor], sinks: Optional[Tensor],
                said: Said, shape: Shape, group: Any, seed: int) -> Tuple[Tensor, Tensor]:
        rank, steps = dist.get_rank(group), steps_of(said, shape)
        total, now = _Sum(query, value.shape[3]), _join(key, value)
        for t in range(steps):
            on_the_way = Exchange(group, now, 1) if t + 1 < steps else None
            k, v = _part(now, key.shape, value.shape)
            for step in _steps(said, shape, rank, t, sinks is not None):
                total.add(step.rows, *_attend(_call(said, shape, step, query, k, v, slopes, sinks, seed)))
            now = now if on_the_way is None else on_the_way.wait()
        out, lse = total.out.to(query.dtype), total.lse.float()
        ctx.save_for_backward(query, key, value, slopes, sinks, out, lse)
        ctx.said, ctx.shape, ctx.group, ctx.seed = said, shape, group, seed
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> Any:
        with torch.no_grad():
            found = _Ring.gradients(ctx, grad_out, grad_lse)
        return *last_derivatives("ring_attention", found, *ctx.saved_tensors[:5], grad_out, grad_lse), *[None] * 4

    @staticmethod
    def gradients(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> List[Optional[Tensor]]:
        query, key, value, slopes, sinks, out, lse = ctx.saved_tensors
        said, shape, group = ctx.said, ctx.shape, ctx.group
        rank, steps = dist.get_rank(group), steps_of(said, shape)
        sums = _Gradients(query, slopes, sinks)
        now, grads = _join(key, value), torch.zeros(key.numel() + value.numel())
        for t in range(steps):
            on_the_way = Exchange(group, now, 1) if t + 1 < steps else None
            k, v = _part(now, key.shape, value.shape)
            dk, dv = _part(grads, key.shape, value.shape)
            for step in _steps(said, shape, rank, t, sinks is not None):
                of = _call(said, shape, step, query, k, v, slopes, sinks, ctx.seed)
                sums.add(step, of, out, lse, grad_out, grad_lse, dk, dv)
            if on_the_way is not None:  # what was added to them goes on with the keys
                grads, now = Exchange(group, grads, 1).wait(), on_the_way.wait()
        if steps > 1:
            grads = Exchange(group, grads, 1 - steps).wait()
        dk, dv = _part(grads, key.shape, value.shape)
        return [sums.query.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), sums.of(slopes, sums.slopes),
                sums.of(sinks, sums.sinks)]


class _Gradients:
    """What a rank sums by itself: gradients of its queries, and its share of those of slopes and sinks."""

    def __init__(self, query: Tensor, slopes: Optional[Tensor], sinks: Optional[Tensor]):
        self.query = torch.zeros(query.shape)
        self.slopes = None if slopes is None else torch.zeros(slopes.shape)
        self.sinks = None if sinks is None else torch.zeros(sinks.shape)

    @staticmethod
    def of(tensor: Optional[Tensor], found: Optional[Tensor]) -> Optional[Tensor]:
        return None if tensor is None or found is None else found.to(tensor.dtype)

    def add(self, step: Step, of: _Call, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor, dkey: Tensor,
            dvalue: Tensor) -> None:
        rows, keys = slice(step.rows.low, step.rows.high), slice(step.keys.low, step.keys.high)
        new: Dict[str, Tensor] = {name: torch.zeros(view.shape) for name, view in
                                  (("dquery", of.query), ("dkey", of.key), ("dvalue", of.value))}
        places = {name: torch_view(x) for name, x in new.items()}
        for name, like, shape in (("dslopes", self.slopes, of.query.shape[:2]),
                                  ("dsinks", self.sinks if step.is_own else None, of.query.shape[1:2])):
            if like is not None:
                new[name] = torch.zeros_like(like)
                places[name] = broadcast(new[name], shape, name)
        run_backward(default_context(), of.query, of.key, of.value, of.fields, of.call, of.options,
                     torch_view(out[:, :, rows]), torch_view(lse[:, :, rows]), torch_view(grad_out[:, :, rows]), places,
                     torch_view(grad_lse[:, :, rows]))
        count(served, "ring, backward")
        self.query[:, :, rows] += new["dquery"]
        dkey[:, :, keys] += new["dkey"]
        dvalue[:, :, keys] += new["dvalue"]
        for name, total in (("dslopes", self.slopes), ("dsinks", self.sinks)):
            if name in new and total is not None:
                total += new[name]


def _check(query: Tensor, key: Tensor, value: Tensor, said: Said, has_slopes: bool, ranks: int) -> None:
    views(query, key, value)
    if query.dtype == torch.float64:
        raise Unsupported("query: float64: lse has float32 here, and parts would be merged by its rounding")
    if (has_slopes or said.window_left >= 0 or said.window_right >= 0) and not (said.causal or said.alignment):
        raise InvalidArgument("alignment: is missing; windows and slopes need to know where rows stand: \"top-left\" "
                              "or \"bottom-right\"")
    if said.layout not in _LAYOUTS:
        raise InvalidArgument(f"layout {said.layout!r}: must be {' or '.join(map(repr, _LAYOUTS))}")
    if said.layout == "zigzag" and (query.shape[2] % 2 or key.shape[2] % 2):
        raise InvalidShape(f"layout 'zigzag': a part has two pieces, so its rows {query.shape[2]} and keys "
                           f"{key.shape[2]} must be even")
    if said.key_lengths and len(said.key_lengths) != query.shape[0]:
        raise InvalidShape(f"key_lengths: has {len(said.key_lengths)} numbers; must be one a batch entry, "
                           f"{query.shape[0]}")
    for length in said.key_lengths:
        if not 0 <= length <= ranks * key.shape[2]:
            raise InvalidArgument(f"key_lengths {length}: must be 0 to {ranks * key.shape[2]}, the keys of all ranks")


def _seed_of(group: Any, dropout: float, seed: Optional[int]) -> int:
    """One for all ranks: the given one, or rank 0's, of PyTorch's generator."""
    if not dropout or seed is not None:
        return 0 if seed is None else whole(seed, "seed", 64, least=0)
    drawn = torch.randint(2**63 - 1, (1,))
    dist.broadcast(drawn, 0 if group is None else dist.get_global_rank(group, 0), group)
    return int(drawn.item())


def ring_attention(query: Tensor, key: Tensor, value: Tensor, *, group: Any = None, layout: str = "contiguous",
                   causal: Optional[str] = None, alignment: Optional[str] = None, window: Any = None,
                   always_visible_keys: int = 0, scale: Optional[float] = None, softcap: Optional[float] = None,
                   slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None, key_lengths: Any = None,
                   dropout: float = 0.0, seed: Optional[int] = None, return_lse: bool = False,
                   allow_rounded_weights: bool = False, allow_tf32: bool = False, **others: Any) -> Any:
    """Attention over a sequence whose rows lie on the processes of a group (torch.distributed; None: all), with
    gradients.

    query, key, value   this rank's part, [batch, heads, rows, columns]; parts are equally long
    layout              which rows that are: "contiguous", part r of all; or "zigzag", pieces r and 2 ranks - 1 - r of
                        twice as many, which gives causal masks the same work on every rank; rows_of() takes them out
    seed                the same on every rank; where None, rank 0's generator draws it. Every bit of dropout is the
                        whole's

    All else means what it does in clattn.torch.attention, of the whole sequence: key_lengths count its keys, windows
    and slopes its places. Every rank calls with the same options, or every rank raises. Keys that no row sees are not
    sent on. Gradients of slopes and sinks are this rank's share, which add up over the ranks. Returns out, or (out,
    lse).
    """
    if others:
        refuse_words("ring_attention", others)
    left, right = window_of(window)
    lengths = () if key_lengths is None else tuple(whole(x, "key_lengths")
                                                   for x in torch.as_tensor(key_lengths).tolist())
    said = Said(layout, causal or "", alignment or "", left, right, whole(always_visible_keys, "always_visible_keys"),
                None if scale is None else number(scale, "scale"),
                0.0 if softcap is None else number(softcap, "softcap"), number(dropout, "dropout"),
                bool(allow_rounded_weights), bool(allow_tf32), lengths)
    wrong: Optional[Error] = None
    try:
        options_of(causal, alignment, False, window, said.always_visible_keys, said.softcap, said.dropout)
        _check(query, key, value, said, slopes is not None, dist.get_world_size(group))
    except Error as error:
        wrong = error
    shape = _agree(group, query, key, value, said, wrong)
    found = _Ring.apply(query, key, value, slopes, sinks, said, shape, group,
                        _seed_of(group, said.dropout, seed))
    return found if return_lse else found[0]


def rows_of(tensor: Tensor, *, axis: int = 2, group: Any = None, layout: str = "contiguous") -> Tensor:
    """This rank's part of a whole tensor along its axis of rows, as ring_attention takes it."""
    ranks, length = dist.get_world_size(group), tensor.shape[axis]
    if layout not in _LAYOUTS:
        raise InvalidArgument(f"layout {layout!r}: must be {' or '.join(map(repr, _LAYOUTS))}")
    if length % (ranks * (2 if layout == "zigzag" else 1)):
        raise InvalidShape(f"tensor: {length} rows do not divide into {ranks} parts as layout {layout!r} has them")
    return torch.cat([tensor.narrow(axis, piece.start, piece.high - piece.low) for piece in
                      pieces(layout, ranks, dist.get_rank(group), length // ranks)], axis)
