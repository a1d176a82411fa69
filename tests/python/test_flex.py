"""clattn.torch.flex_attention beside PyTorch's own, which computes eagerly in float64: the formulas that its
documentation shows, types, grouped heads, lse, what is refused, and functions whose captured values change."""
import os
import types
import unittest
import unittest.mock
import warnings

import torch
from torch.nn.attention import flex_attention as stock

import clattn.torch
from clattn import _flex_call

HAS_FLOAT64 = next(device["float64"] for device in clattn.devices() if device["chosen"])
HEADS, ROWS = 4, 70
TOLERANCE = {torch.float32: 3e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def inputs(dtype=torch.float32, rows=ROWS, keys=ROWS, kv_heads=HEADS):
    return normal(2, HEADS, rows, 24, dtype=dtype), normal(2, kv_heads, keys, 24, seed=1, dtype=dtype), \
        normal(2, kv_heads, keys, 16, seed=2, dtype=dtype)


def block_mask(mask_mod, batch=None, heads=None, rows=ROWS, keys=ROWS):
    return stock.create_block_mask(mask_mod, batch, heads, rows, keys, device="cpu", BLOCK_SIZE=16)


# ---- eight formulas ----

def alibi(score, b, h, q_idx, kv_idx):
    return score + torch.exp2(-(h + 1) * 8 / HEADS) * (kv_idx - q_idx)


def soft_cap(score, b, h, q_idx, kv_idx):
    return 2.5 * torch.tanh(score / 2.5)


def causal_window(b, h, q_idx, kv_idx):
    return (q_idx >= kv_idx) & (q_idx - kv_idx <= 11)


def relative_bias(table):
    return lambda score, b, h, q, k: score + table[h, torch.clamp(k - q + 20, 0, 40)]


def t5_buckets(table):
    def score_mod(score, b, h, q_idx, kv_idx):
        away = q_idx - kv_idx
        near = torch.abs(away)
        far = 8 + (torch.log(torch.clamp(near, min=1) / 8.0) / 2.772588722239781 * 8).to(torch.int32)
        bucket = torch.where(near < 8, near, torch.minimum(far, torch.tensor(15)))
        return score + table[bucket + torch.where(away < 0, 16, 0), h]
    return score_mod


def documents(ids):
    def mask_mod(b, h, q_idx, kv_idx):
        return (ids[b, q_idx] == ids[b, kv_idx]) & (q_idx >= kv_idx)
    return mask_mod


def prefix_lm(lengths):
    return lambda b, h, q_idx, kv_idx: (kv_idx < lengths[b]) | (q_idx >= kv_idx)


def neighbourhood(b, h, q_idx, kv_idx):
    return ((q_idx // 10 - kv_idx // 10).abs() <= 2) & ((q_idx % 10 - kv_idx % 10).abs() <= 3)


def eight():
    """(name, score_mod, mask_mod)"""
    return (("ALiBi", alibi, None), ("softcap", soft_cap, None), ("window", None, causal_window),
            ("relative bias", relative_bias(normal(HEADS, 41)), None),
            ("T5 buckets", t5_buckets(normal(32, HEADS, dtype=torch.bfloat16)), None),
            ("documents", None, documents(torch.arange(ROWS)[None] // torch.tensor([[9], [25]]))),
            ("prefix-LM", None, prefix_lm(torch.tensor([13, 40]))), ("neighbourhood", None, neighbourhood))


class Flex(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")  # PyTorch says in each call that eager is slow
        _flex_call._texts.clear()

    def check(self, three, score_mod=None, mask=None, **options):
        expected = stock.flex_attention(*(x.double() for x in three), score_mod, mask, return_lse=True, **options)
        found = clattn.torch.flex_attention(*three, score_mod, mask, return_lse=True, **options)
        self.assertEqual((found[0].dtype, found[1].shape), (three[0].dtype, three[0].shape[:3]))
        self.assertFalse(found[0].isnan().any() or found[1].isnan().any())
        for one, other, tolerance in zip(found, expected, (TOLERANCE[three[0].dtype], 1e-5)):
            self.assertTrue(torch.equal(one == -torch.inf, other == -torch.inf))
            difference = (one.double() - other).masked_fill(other == -torch.inf, 0.0)
            self.assertLessEqual(difference.abs().max().item(), tolerance)

    def test_eight_formulas(self):
        for name, score_mod, mask_mod in eight():
            for dtype in (torch.float32, torch.bfloat16, torch.float16) + ((torch.float64,) if HAS_FLOAT64 else ()):
                with self.subTest(name, dtype=dtype):
                    mask = None if mask_mod is None else block_mask(mask_mod, 2, HEADS)
                    self.check(inputs(dtype), score_mod, mask)

    def test_score_and_mask_with_grouped_heads_and_a_scale(self):
        self.check(inputs(kv_heads=2), alibi, block_mask(causal_window), scale=0.3, enable_gqa=True)
        with self.assertRaisesRegex(clattn.InvalidShape, "enable_gqa"):
            clattn.torch.flex_attention(*inputs(kv_heads=2), alibi)

    def test_no_functions(self):
        self.check(inputs(rows=5, keys=90))
        self.check((inputs()[0], *(x[:1] for x in inputs()[1:])), alibi, block_mask(causal_window, 2))

    def test_lengths(self):
        for rows, keys in ((1, 1), (1, 200), (3, 17), (130, 33), (257, 300)):
            self.check(inputs(rows=rows, keys=keys), alibi, block_mask(neighbourhood, rows=rows, keys=keys))

    def test_rows_without_keys(self):
        mask = block_mask(lambda b, h, q, k: (q % 3 != 1) & (k < 30))
        self.check(inputs(), None, mask)
        found = clattn.torch.flex_attention(*inputs(), None, mask, return_lse=True)
        self.assertTrue((found[0][:, :, 1] == 0).all() and (found[1][:, :, 1] == -torch.inf).all())
        self.check(inputs(), lambda s, b, h, q, k: torch.where(q % 3 != 1, s, -float("inf")))

    def test_masks_are_joined(self):
        mask = stock.or_masks(causal_window, stock.and_masks(neighbourhood, lambda b, h, q, k: k > 3))
        self.check(inputs(), None, block_mask(mask))

    def test_blocks_without_a_function(self):
        """They are the mask, which PyTorch's eager implementation takes for none."""
        listed = torch.tensor([[1, 0, 1], [0, 1, 1], [0, 0, 0]], dtype=torch.bool)
        count = listed.sum(-1, dtype=torch.int32)
        order = torch.argsort(listed.int(), dim=-1, descending=True, stable=True).int()
        mask = stock.BlockMask.from_kv_blocks(count[None, None], order[None, None], BLOCK_SIZE=32,
                                              seq_lengths=(ROWS, ROWS))
        dense = listed.repeat_interleave(32, 0).repeat_interleave(32, 1)[:ROWS, :ROWS]
        found = clattn.torch.flex_attention(*inputs(), alibi, mask, return_lse=True)
        expected = stock.flex_attention(*(x.double() for x in inputs()), lambda s, b, h, q, k: torch.where(
            dense[q, k], alibi(s, b, h, q, k), -float("inf")), return_lse=True)
        self.assertLessEqual((found[0] - expected[0]).abs().max().item(), 3e-6)
        self.assertTrue((found[1][:, :, 64:] == -torch.inf).all())
        wrong = clattn.InvalidShape, "block_mask"
        with self.assertRaisesRegex(*wrong):
            clattn.torch.flex_attention(*inputs(keys=71), None, mask)
        with self.assertRaisesRegex(*wrong):
            clattn.torch.flex_attention(*inputs(keys=71), None, block_mask(causal_window))

    def test_served_where_it_is_asked_for(self):
        """PyTorch's own function, in compiled code too; what ours declines goes to PyTorch's."""
        clattn.torch.enable(flex=True)
        try:
            before = clattn.torch.report()["served"].get("flex_attention", 0)
            mask = block_mask(causal_window)
            found = stock.flex_attention(*inputs(), alibi, mask)
            compiled = torch.compile(lambda q, k, v: stock.flex_attention(q * 1, k, v, alibi, mask) + 0)(*inputs())
            self.assertEqual(clattn.torch.report()["served"]["flex_attention"], before + 2)
            declined = stock.flex_attention(*inputs(), alibi, mask, kernel_options={"BLOCK_M": 16})
            self.assertTrue(any("kernel_options" in reason for reason in clattn.torch.report()["declined"]))
        finally:
            clattn.torch.disable()
        expected = stock.flex_attention(*(x.double() for x in inputs()), alibi, mask)
        for got in (found, compiled, declined):
            self.assertLessEqual((got - expected).abs().max().item(), 3e-6)
        self.assertEqual(stock.flex_attention.__module__, "torch.nn.attention.flex_attention")

    def test_lists_of_blocks_decide(self):
        """What is not listed is hidden though mask_mod shows it; of what is full mask_mod is not asked. Gradients, too;
        lists that are changed in place count."""
        partial = torch.tensor([[1, 0, 1], [0, 1, 0], [0, 0, 0]], dtype=torch.bool)
        full = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.bool)
        lists = [x for listed in (partial, full) for x in (
            listed.sum(-1, dtype=torch.int32)[None, None],
            torch.argsort(listed.int(), dim=-1, descending=True, stable=True).int()[None, None])]

        def thirds(b, h, q, k):
            return (q + k) % 3 == 0
        mask = stock.BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=32, seq_lengths=(ROWS, ROWS), mask_mod=thirds)
        for _ in range(2):
            places = torch.arange(ROWS)
            seen = thirds(0, 0, places[:, None], places[None, :])
            wide = [x.repeat_interleave(32, 0).repeat_interleave(32, 1)[:ROWS, :ROWS] for x in (partial, full)]
            seen = (wide[0] & seen) | wide[1]
            given = [x.requires_grad_() for x in inputs()]
            exact = [x.detach().double().requires_grad_() for x in given]
            found = clattn.torch.flex_attention(*given, None, mask)
            scores = exact[0] @ exact[1].transpose(-1, -2) / exact[0].shape[-1] ** 0.5
            expected = torch.softmax(scores.masked_fill(~seen, -float("inf")), -1).nan_to_num(0.0) @ exact[2]
            self.assertLessEqual((found - expected).abs().max().item(), 3e-6)
            up = torch.randn_like(found)
            (found * up).sum().backward()
            (expected[:, :, seen.any(-1)] * up[:, :, seen.any(-1)].double()).sum().backward()
            for got, wanted in zip(given, exact):
                self.assertLessEqual((got.grad - wanted.grad.nan_to_num(0.0)).abs().max().item(), 2e-5)
            lists[0][0, 0, 0], partial[0, 2] = 1, False

    def test_operators(self):
        """Each beside PyTorch's, of numbers below 0, too."""
        scalar, whole = torch.tensor(0.37), torch.tensor(-3)
        flags, doubles = normal(ROWS) > 0, normal(HEADS, ROWS, dtype=torch.float64)
        rows_of_query, empty = normal(2, HEADS, ROWS, 8), normal(ROWS, 0)
        for at, function in enumerate((
                lambda s, b, h, q, k: s * scalar + (k - q) // whole,
                lambda s, b, h, q, k: s + (k - q) // 7 + (k - q) % 7 + (q - k) // 8 + (q - k) % 8,
                lambda s, b, h, q, k: s + torch.remainder(s, -0.7) + torch.floor(s * 3) + torch.fmod(s, 0.3),
                lambda s, b, h, q, k: torch.where(flags[k], s, s - 2) + doubles[h][q],
                lambda s, b, h, q, k: (s ** 2 + torch.abs(s) ** 1.5 + 2.0 ** s + (s * s + 1) ** -1 - s ** 3) * 0.1,
                lambda s, b, h, q, k: (torch.sigmoid(s) + torch.log1p(s.abs()) + torch.sqrt(s.abs()) +
                torch.expm1(s)) * 0.1,
                lambda s, b, h, q, k: s + ((q ^ k) & 5) + (q | k) * 0.01 + (~q) * 0.01 + (q << 1) * 0.01 + (k >> 2),
                lambda s, b, h, q, k: s + (q > k) * 2 + (q == k) + ~(q > k) + ((q > 3) ^ (k > 5)) - (q != k).float(),
                lambda s, b, h, q, k: torch.clamp(s, -0.5, 0.7) + torch.maximum(s, -s) + s.clamp(min=0.1) +
                torch.sign(s),
                lambda s, b, h, q, k: s + normalised[h, k] + normalised[-1, k - q] + (normalised * 2)[0][q],
                lambda s, b, h, q, k: s.to(torch.int32) + torch.round(s * 2) - torch.rsub(s, k, alpha=0.5) +
                torch.relu(s),
                lambda s, b, h, q, k: torch.where(torch.logical_not(q > 4) | torch.logical_and(k, q), s,
                torch.rsqrt(s.exp())),
                lambda s, b, h, q, k: s + torch.softmax(doubles, -1)[h, k],
                lambda s, b, h, q, k: torch.nn.functional.logsigmoid(s) - torch.nn.functional.softplus(s - 1),
                lambda s, b, h, q, k: s + torch.dot(rows_of_query[b, h, q], rows_of_query[b, 0, k]) +
                torch.dot(empty[q], empty[k]))):
            with self.subTest(at):
                self.check(inputs(), function)

    def test_small_tensors_of_a_pair(self):
        """Put together, cut, compared with lists, added up: rows of captured tensors and what the function makes."""
        starts, ends = torch.tensor([3, 20, 50]), torch.tensor([12, 33, 64])
        rows, table = normal(ROWS, 4), normal(HEADS, 2 * ROWS)
        masks = (lambda b, h, q, k: torch.stack([q >= k, (q - k).abs() < 4, k == 7]).any(0),
                 lambda b, h, q, k: torch.isin(k % 7, torch.tensor([1, 3])) | torch.isin(q, starts) | (q == k),
                 lambda b, h, q, k: ((q >= starts) & (q < ends) & (k >= starts) & (k < ends)).any() | (q >= k),
                 lambda b, h, q, k: torch.searchsorted(ends, q, side="right") == torch.bucketize(k, ends, right=True))
        scores = (lambda s, b, h, q, k: torch.stack([s, s * 2, (q - k) * 0.1]).amax(0) + torch.stack([s, -s]).min(),
                  lambda s, b, h, q, k: s - ((rows[q] - rows[k]) ** 2).sum(-1).sqrt() + rows[q][1:3].mean(),
                  lambda s, b, h, q, k: torch.cat([s[None], torch.tanh(rows[k] * s)]).sum() + rows[q] @ rows[k],
                  lambda s, b, h, q, k: s + rows[:, 2][q] * rows[k, 1:3].prod() + table[:, q - k + ROWS].amax(),
                  lambda s, b, h, q, k: torch.softmax(torch.stack([s, 0.3 * s, table[h, q]]), -1)[0] * 3,
                  lambda s, b, h, q, k: s + torch.nn.functional.embedding(q - k + ROWS, table.T)[h] +
                  table.take(h * 2 * ROWS + k) + torch.div(q - k, 7, rounding_mode="trunc") * 0.1,
                  lambda s, b, h, q, k: torch.asinh(s) + torch.hypot((q // 8).float(), s) +
                  torch.copysign(s, k - q + 0.5) + torch.where(torch.signbit(s), torch.erfc(s), torch.acos(s.clamp(
                      -0.9, 0.9))) + torch.nn.functional.mish(s) + torch.lerp(s, s * s, 0.3))
        self.check(inputs(), None, block_mask(stock.or_masks(stock.and_masks(*masks[:2]), stock.and_masks(*masks[2:]))))

        for chosen in (scores[:4], scores[4:])[0 if os.environ.get("CLATTN_TEST_LONG") else 1:]:
            def score_mod(s, b, h, q, k, chosen=chosen):
                return sum(function(s, b, h, q, k) for function in chosen) / len(chosen)
            of_all = score_mod
            for dims in ((0, None, None, None, 0), (0, None, None, 0, None), (0, None, 0, None, None),
                         (0, 0, None, None, None)):
                of_all = torch.vmap(of_all, in_dims=dims)

            def of_axes(s, *axes, of_all=of_all):
                return of_all(s, *(x.flatten() for x in axes))
            self.check_gradients(inputs(), score_mod, of_all=of_axes)
        for name, function in (("argmax", lambda s, b, h, q, k: s + rows[q].argmax()),
                               ("mul.*280", lambda s, b, h, q, k: s + (table[:, :ROWS] * s).sum())):
            with self.assertRaisesRegex(NotImplementedError, name):
                clattn.torch.flex_attention(*inputs(), function)

    def test_what_has_no_line_is_named(self):
        for name, function in (("erfinv", lambda s, b, h, q, k: torch.erfinv(s)),
                               ("frexp.*several results", lambda s, b, h, q, k: torch.frexp(s)[0]),
                               ("rand", lambda s, b, h, q, k: s + torch.rand(())),
                               ("dot.*300.*192", lambda s, b, h, q, k, x=normal(ROWS, 300): s + torch.dot(x[q], x[k])),
                               ("score_mod", lambda s, b, h, q, k: s if q > k else -s)):
            with self.assertRaisesRegex(NotImplementedError, name):
                clattn.torch.flex_attention(*inputs(), function)
        with self.assertRaisesRegex(IndexError, "axis of 69"):
            clattn.torch.flex_attention(*inputs(), lambda s, b, h, q, k, table=normal(69): s + table[q])
        with self.assertRaisesRegex(NotImplementedError, "32 bits"):
            clattn.torch.flex_attention(*inputs(), lambda s, b, h, q, k, ids=torch.arange(ROWS) << 40: s + ids[q])
        with self.assertRaisesRegex(NotImplementedError, "more than 8"):
            tables = [normal(ROWS, seed=i) for i in range(9)]
            clattn.torch.flex_attention(*inputs(), lambda s, b, h, q, k: s + sum(table[q] for table in tables))

    def test_indices_never_leave_a_tensor(self):
        """One behind the end takes the last element, where PyTorch's eager implementation raises."""
        table = normal(ROWS)
        found = clattn.torch.flex_attention(*inputs(), lambda s, b, h, q, k: s + table[q + k])
        expected = clattn.torch.flex_attention(*inputs(), lambda s, b, h, q, k: s + table[torch.clamp(q + k,
            max=ROWS - 1)])
        self.assertTrue(torch.equal(found, expected))

    @staticmethod
    def dense(query, key, value, score_mod, mask, scale=None, enable_gqa=False, return_lse=True):
        """With all scores in memory, whose gradients PyTorch has on CPUs."""
        key, value = (x.expand(query.shape[0], -1, -1, -1).repeat_interleave(query.shape[1] // x.shape[1], 1)
                      for x in (key, value))
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
        axes = [torch.arange(n).view([n if axis == at else 1 for at in range(4)])
                for axis, n in enumerate(scores.shape)]
        scores = scores if score_mod is None else score_mod(scores, *axes).to(scores.dtype)
        if mask is not None:
            scores = torch.where(mask.mask_mod(*axes), scores, -torch.inf)
        lse = torch.logsumexp(scores, -1)
        weights = torch.where(torch.isfinite(lse)[..., None], torch.softmax(scores, -1), 0.0)
        return weights @ value, lse

    def check_gradients(self, three, score_mod=None, mask=None, of_all=None, **options):
        """Those of a loss through out and lse, beside PyTorch's of the formula in float64. of_all: score_mod of all
        pairs at once, where it is not that itself."""
        dout, dlse = normal(2, HEADS, three[0].shape[2], 16, seed=7), normal(*three[0].shape[:3], seed=8)
        found = []
        for function, dtype, score_mod in ((clattn.torch.flex_attention, three[0].dtype, score_mod),
                                           (self.dense, torch.float64, of_all or score_mod)):
            leaves = [x.detach().to(dtype).clone().requires_grad_() for x in three]
            out, lse = function(*leaves, score_mod, mask, return_lse=True, **options)
            seen = torch.isfinite(lse)
            loss = (out.double() * dout * seen[..., None]).sum() + torch.where(seen, lse, 0.0).double().mul(dlse).sum()
            loss.backward()
            found.append([torch.zeros_like(x) if x.grad is None else x.grad.double() for x in leaves] + [out.detach()])
        for name, one, other in zip(("query", "key", "value", "out"), *found):
            self.assertFalse(one.isnan().any(), name)
            largest = other.abs().max().item()
            self.assertLessEqual((one - other).abs().max().item(), 4 * TOLERANCE[three[0].dtype] * largest, name)

    def test_gradients_of_eight_formulas(self):
        for name, score_mod, mask_mod in eight():
            for dtype in (torch.float32, torch.bfloat16) + ((torch.float64,) if HAS_FLOAT64 else ()):
                with self.subTest(name, dtype=dtype):
                    mask = None if mask_mod is None else block_mask(mask_mod, 2, HEADS)
                    self.check_gradients(inputs(dtype), score_mod, mask)

    def test_gradients_of_operators(self):
        for at, function in enumerate((
                lambda s, b, h, q, k: torch.sigmoid(s) * 2 + torch.nn.functional.silu(s) + torch.nn.functional.gelu(s),
                lambda s, b, h, q, k: torch.where(q > k, s * s, torch.relu(s)) + torch.abs(s - 0.1) ** 1.5,
                lambda s, b, h, q, k: torch.clamp(s, -0.5, 0.7) + torch.maximum(s, -0.3 * s) + torch.log1p(s.exp()),
                lambda s, b, h, q, k: torch.nn.functional.softplus(s) + torch.sqrt(s * s + 1) + torch.sin(s) / (2 + h),
                lambda s, b, h, q, k: 0.1 * (q - k).abs().float())):
            with self.subTest(at):
                self.check_gradients(inputs(), function, block_mask(causal_window))
        tables = [normal(ROWS, seed=i) for i in range(6)]  # each is loaded by the score and by its derivative
        self.check_gradients(inputs(), lambda s, b, h, q, k: s * sum(table[k] * s for table in tables) * 0.01)
        self.check_gradients(inputs(kv_heads=2), soft_cap, scale=0.4, enable_gqa=True)
        self.check_gradients((inputs()[0], *(x[:1] for x in inputs()[1:])), alibi)

    def check_captured(self, score_mod, learned, three, mask=None):
        """Gradients of tensors that it captures, beside PyTorch's of the dense formula in float64."""
        dout, found = normal(2, HEADS, three[0].shape[2], 16, seed=7), []
        for function, dtype in ((clattn.torch.flex_attention, three[0].dtype), (self.dense, torch.float64)):
            out, _ = function(*(x.to(dtype) for x in three), score_mod, mask, return_lse=True)
            found.append([x.double() for x in torch.autograd.grad((out.double() * dout).sum(), learned)])
        for one, other in zip(*found):
            largest = other.abs().max().item()
            self.assertGreater(largest, 0)
            self.assertLessEqual((one - other).abs().max().item(), 8 * TOLERANCE[three[0].dtype] * largest)

    def test_gradients_of_what_is_captured(self):
        """A closure's tensors, an object's, those that others are made of; where no input wants a gradient,
        where all do, with rows that see nothing, and by a score that is no sum."""
        table, gate = normal(HEADS, 41).requires_grad_(), normal(ROWS, seed=3).requires_grad_()
        holder, made = types.SimpleNamespace(table=table), torch.tanh(table)
        every_third = block_mask(lambda b, h, q, k: (q % 3 != 1) & (k <= q + 9))
        wanting = [x.requires_grad_() for x in inputs()]
        for score_mod, learned, three, mask in (
                (relative_bias(table), [table], inputs(), None),
                (relative_bias(made), [made], wanting, block_mask(causal_window)),
                (lambda s, b, h, q, k: s + holder.table[h, q % 41] * k * 0.01, [table], inputs(), every_third),
                (lambda s, b, h, q, k: torch.tanh(s * gate[k]) + table[h, k % 41] * gate[q], [table, gate],
                 inputs(kv_heads=HEADS), every_third),
                (relative_bias(table), [table], inputs(torch.bfloat16), None)):
            self.check_captured(score_mod, learned, three, mask)
        found = [torch.autograd.grad(clattn.torch.flex_attention(*inputs(), relative_bias(table)).square().sum(),
                                     table)[0] for _ in range(2)]
        self.assertTrue(torch.equal(*found))
        self.assertFalse(torch.are_deterministic_algorithms_enabled())

    def test_gradients_are_of_what_a_call_captured(self):
        """A function may read another tensor by then, as that of a loop does; one that is made of another has its own;
        an index of a hidden pair may be out of bounds."""
        tables, window = [normal(ROWS, seed=n).requires_grad_() for n in range(3)], block_mask(causal_window)
        short, found = normal(HEADS, 12, seed=5).requires_grad_(), []
        for function, least in ((clattn.torch.flex_attention, -ROWS), (self.dense, 0)):
            total = torch.zeros(())
            for table in tables:
                made = table * table
                out, _ = function(*inputs(), lambda s, b, h, q, k: s + table[k] * made[q] +
                                  short[h, (q - k).clamp(least, ROWS if least else 11)], window, return_lse=True)
                total = total + out.square().sum()
            found.append(torch.autograd.grad(total, [*tables, short]))
        for one, other in zip(*found):
            self.assertLessEqual((one - other).abs().max().item(), 1e-4 * other.abs().max().item())

    def test_gradients_of_what_a_mask_captures_are_refused(self):
        edge = torch.tensor(3.5, requires_grad=True)
        with self.assertRaisesRegex(NotImplementedError, "no gradients of what mask_mod captures"):
            clattn.torch.flex_attention(*inputs(), None, block_mask(lambda b, h, q, k: k < q + edge))

    def test_a_relative_bias_is_learned(self):
        """A layer with a table of its own, 100 steps beside PyTorch's dense formula: the losses agree."""
        target, losses = normal(2, HEADS, ROWS, 16, seed=11), []
        for function in (clattn.torch.flex_attention, self.dense):
            three = [x.clone().requires_grad_() for x in inputs()]
            table = torch.zeros(HEADS, 41, requires_grad=True)
            optimizer = torch.optim.Adam([*three, table], 0.03)
            losses.append([])
            for _ in range(100):
                optimizer.zero_grad()
                out, _ = function(*three, relative_bias(table), None, return_lse=True)
                loss = (out - target).square().mean()
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
        self.assertLess(losses[0][-1], 0.7 * losses[0][0])
        for one, other in zip(*losses):
            self.assertLessEqual(abs(one - other), 2e-3 * other)

    def test_a_changed_tensor_is_noticed_by_gradients(self):
        query, key, value = inputs()
        table = normal(HEADS, 41)
        out = clattn.torch.flex_attention(query.requires_grad_(), key, value,
                                          lambda s, b, h, q, k: s * table[h, k % 41])
        table += 1
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            out.sum().backward()

    def test_what_is_captured_is_read_in_each_call(self):
        width, tensor, flag, table = 3, torch.tensor(2), torch.tensor(False), normal(ROWS)
        holder = types.SimpleNamespace(width=5)

        def mask(b, h, q, k):
            return (q - k).abs() <= width

        def score(s, b, h, q, k):
            return s * tensor + table[k] + holder.width

        def branches(s, b, h, q, k):
            return s * 3 if flag else s

        for change in range(3):
            if change == 1:
                width, tensor, holder.width = 9, torch.tensor(3), 7
                flag.fill_(True)
                table += 1
            if change == 2:
                table, holder = normal(ROWS, seed=5), types.SimpleNamespace(width=k_of(6))
            self.check(inputs(), score, block_mask(mask))
            found = clattn.torch.flex_attention(*inputs(), branches)
            self.assertTrue(torch.equal(found, clattn.torch.flex_attention(
                *inputs(), [lambda s, b, h, q, k: s, lambda s, b, h, q, k: s * 3][change > 0])))
            self.check(inputs(), lambda s, b, h, q, k: s + OF_MODULE * 0.01 * k)
            globals()["OF_MODULE"] += 1

    def test_a_function_is_traced_once(self):
        table, strength = normal(HEADS, 41), torch.tensor(0.5)

        def make(table, strength):
            return lambda s, b, h, q, k: s + table[h, torch.clamp(k - q + 20, 0, 40)] * strength

        with unittest.mock.patch.object(_flex_call, "trace", wraps=_flex_call.trace) as traced:
            for _ in range(3):
                self.check(inputs(), make(table, strength), block_mask(causal_window))
                table, strength = table + 1, strength + 1
            self.assertEqual(traced.call_count, 2)
        sources = {text.writer.source for text in _flex_call._texts.values()}
        self.assertEqual(len(sources), 1)

    def test_a_longer_sequence_compiles_nothing(self):
        sources = set()
        for rows in (90, 101):
            ids = torch.arange(rows).expand(2, rows) // 9
            self.check(inputs(rows=rows, keys=rows), None, block_mask(documents(ids), 2, rows=rows, keys=rows))
            sources |= {text.writer.source for text in _flex_call._texts.values()}
        self.assertEqual(len(sources), 1)

    def test_inside_torch_compile(self):
        compiled = torch.compile(lambda q, k, v: clattn.torch.flex_attention(q * 2, k, v, alibi) + 1, backend="eager")
        query, key, value = inputs()
        self.assertTrue(torch.equal(compiled(query, key, value), clattn.torch.flex_attention(query * 2, key, value,
            alibi) + 1))


normalised = normal(HEADS, 2 * ROWS).softmax(-1)
OF_MODULE = 1


def k_of(width):
    return width


if __name__ == "__main__":
    unittest.main()
