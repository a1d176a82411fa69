"""PyTorch's BlockMask as the library has masks of blocks."""
import weakref
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _library as lib
from ._errors import InvalidArgument, InvalidShape

_EMPTY, _PARTIAL, _FULL = (int(x) for x in (lib.CLATTN_BLOCK_EMPTY, lib.CLATTN_BLOCK_PARTIAL, lib.CLATTN_BLOCK_FULL))


class Lists(NamedTuple):
    """What a BlockMask says beside its mask_mod."""

    tensors: Sequence[Tensor]  # how many blocks each row of blocks lists, and which; the same of full ones, if any
    block: Tuple[int, int]  # rows and keys of a block
    lengths: Tuple[int, int]  # rows and keys in all


class Blocks(NamedTuple):
    """A mask of blocks as the library has it: bytes [batch or 1, heads or 1, blocks of rows, blocks of keys]."""

    bytes: Tensor
    rows: int  # of a block
    keys: int


def lists_of(block_mask: Any) -> Lists:
    tensors = [block_mask.kv_num_blocks, block_mask.kv_indices]
    if block_mask.full_kv_num_blocks is not None:
        tensors += [block_mask.full_kv_num_blocks, block_mask.full_kv_indices]
    return Lists(tensors, tuple(block_mask.BLOCK_SIZE), tuple(block_mask.seq_lengths))


def _listed(counts: Tensor, indices: Tensor) -> Tensor:
    """Which blocks of keys the lists of each row of blocks name."""
    named = torch.arange(indices.shape[-1]) < counts[..., None]
    where = torch.where(named, indices, indices.shape[-1]).long()
    return torch.zeros(*indices.shape[:-1], indices.shape[-1] + 1, dtype=torch.bool).scatter(-1, where, True)[..., :-1]


def blocks_of(lists: Lists) -> Blocks:
    if lists.tensors[1].device.type != "cpu":
        raise InvalidArgument(f"block_mask: is on {lists.tensors[1].device}; must be on the CPU")
    partial, *full = (_listed(*lists.tensors[n:n + 2]) for n in range(0, len(lists.tensors), 2))
    found = torch.where(partial, _PARTIAL, _EMPTY)
    for listed in full:
        found = torch.where(listed, _FULL, found)
    return Blocks(found.to(torch.uint8).contiguous(), *lists.block)


_known: "weakref.WeakKeyDictionary[Any, Tuple[Any, Blocks]]" = weakref.WeakKeyDictionary()


def blocks_of_mask(block_mask: Any) -> Blocks:
    """Those of its lists, made once for as long as they are what they were."""
    lists = lists_of(block_mask)
    made_of = [(x.data_ptr(), x._version) for x in lists.tensors]
    known = _known.get(block_mask)
    if known is not None and known[0] == made_of:
        return known[1]
    made = blocks_of(lists)
    _known[block_mask] = made_of, made
    return made


def fitting(lists: Lists, blocks: Blocks, query: Tensor, key: Tensor, has_function: bool) -> Optional[Blocks]:
    """The blocks, or None where they say nothing; raises where they are not of this query and key. As in PyTorch's
    kernels, blocks that are not listed are not seen, whatever mask_mod says, and full ones are seen without asking
    it."""
    rows, keys = lists.lengths
    batch, heads = lists.tensors[0].shape[:2]
    if batch not in (1, query.shape[0]) or heads not in (1, query.shape[1]):
        raise InvalidShape(f"block_mask: is of {batch} batch entries and {heads} heads; must be of 1 or "
                           f"{query.shape[0]}, and 1 or {query.shape[1]}")
    says_nothing = bool((blocks.bytes == _PARTIAL).all() if has_function else (blocks.bytes != _EMPTY).all())
    is_short = rows < query.shape[2] or keys < key.shape[2]
    if (rows, keys) != (query.shape[2], key.shape[2]) if has_function else is_short and not says_nothing:
        raise InvalidShape(f"block_mask: is of {rows} rows and {keys} keys; query has {query.shape[2]} and key "
                           f"{key.shape[2]}")
    return None if says_nothing else blocks
