"""torch.nn.attention.varlen_attn on the CPU, where PyTorch has no kernel, while clattn.torch.enable() is in force:
against every sequence alone in float64, forward and backward, with fewer key heads, windows, keys in pages."""
import unittest

import torch

import clattn.torch

try:
    from torch.nn.attention import varlen
    from torch.nn.attention.varlen import varlen_attn
except ImportError:
    raise unittest.SkipTest(f"PyTorch {torch.__version__}: has no varlen_attn") from None

SEAMS = [0, 3, 10, 10, 24]  # one sequence is empty
LONGEST = 14
NEAR = {torch.float32: 4e-6, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def made(dtype, keys=24):
    """Four heads of queries, two of keys."""
    torch.manual_seed(3)
    return [torch.randn(rows, heads, 16).to(dtype).requires_grad_() for rows, heads in ((24, 4), (keys, 2), (keys, 2))]


def one_by_one(query, key, value, seams, key_seams, window, scale=None, lengths=None):
    """(out, lse) in float64; rows are aligned with the last keys."""
    outs, sums = [], []
    for i, (begin, end) in enumerate(zip(seams, seams[1:])):
        first, last = key_seams[i], key_seams[i + 1] if lengths is None else key_seams[i] + lengths[i]
        q = query[begin:end].double().transpose(0, 1)
        k, v = (x[first:last].double().transpose(0, 1).repeat_interleave(2, 0) for x in (key, value))
        scores = q @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
        row, column = torch.arange(end - begin)[:, None] + (last - first) - (end - begin), torch.arange(last - first)
        left, right = window
        hidden = ((column < row - left) if left >= 0 else torch.zeros_like(row - column, dtype=torch.bool)) | \
            ((column > row + right) if right >= 0 else torch.zeros_like(row - column, dtype=torch.bool))
        scores = scores.masked_fill(hidden, -torch.inf)
        outs.append((torch.softmax(scores, -1) @ v).transpose(0, 1))
        sums.append(scores.logsumexp(-1))
    return torch.cat(outs), torch.cat(sums, 1)


class Varlen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        clattn.torch.enable()

    @classmethod
    def tearDownClass(cls):
        clattn.torch.disable()

    def near(self, found, wanted, dtype):
        self.assertEqual(found.shape, wanted.shape)
        error = (found.double() - wanted).abs().max() / wanted.abs().max()
        self.assertLess(error.item(), NEAR[dtype])

    def test_both_directions(self):
        seams = torch.tensor(SEAMS, dtype=torch.int32)
        for dtype, window, scale in ((torch.float32, (-1, -1), None), (torch.float32, (-1, 0), 0.5),
                                     (torch.bfloat16, (4, 0), None), (torch.float16, (-1, 0), None)):
            with self.subTest(dtype=dtype, window=window):
                given = made(dtype)
                out, lse = varlen_attn(*given, seams, seams, LONGEST, LONGEST, window_size=window, scale=scale,
                                       enable_gqa=True, return_aux=varlen.AuxRequest(lse=True))
                wanted, sums = one_by_one(*given, SEAMS, SEAMS, window, scale)
                self.near(out, wanted, dtype)
                self.near(lse, sums, dtype)
                self.assertEqual(out.dtype, dtype)
                dout = torch.randn(out.shape).to(dtype)
                for mine, right in zip(torch.autograd.grad(out, given, dout),
                                       torch.autograd.grad(wanted, given, dout.double())):
                    self.near(mine, right.double(), dtype)

    def test_other_keys_than_rows(self):
        seams, keys = torch.tensor(SEAMS, dtype=torch.int32), [0, 9, 17, 17, 32]
        given = made(torch.float32, 32)
        out = varlen_attn(*given, seams, torch.tensor(keys, dtype=torch.int32), LONGEST, 15, window_size=(-1, 0),
                          enable_gqa=True)
        self.near(out, one_by_one(*given, SEAMS, keys, (-1, 0))[0], torch.float32)

    @torch.no_grad()
    def test_lengths_and_pages(self):
        query, key, value = made(torch.float32)
        seams, lengths = torch.tensor(SEAMS, dtype=torch.int32), [2, 5, 0, 14]
        used = torch.tensor(lengths, dtype=torch.int32)
        out = varlen_attn(query, key, value, seams, seams, LONGEST, LONGEST, enable_gqa=True, seqused_k=used)
        self.near(out, one_by_one(query, key, value, SEAMS, SEAMS, (-1, -1), lengths=lengths)[0], torch.float32)
        pages = torch.randn(2, 9, 4, 2, 16)
        table = torch.tensor([[3, 0, 0, 0], [1, 7, 0, 0], [6, 0, 0, 0], [2, 4, 5, 8]], dtype=torch.int32)
        key, value = (pool[table.long()].reshape(-1, 2, 16) for pool in pages)
        wanted = one_by_one(query, key, value, SEAMS, [0, 16, 32, 48, 64], (-1, 0), lengths=lengths)[0]
        given = query, pages[0], pages[1], seams, None, LONGEST, 16
        said = {"enable_gqa": True, "seqused_k": used, "block_table": table, "window_size": (-1, 0)}
        seen = torch.cat([torch.arange(24)[begin:end][max(0, end - begin - length):] for begin, end, length in
                          zip(SEAMS, SEAMS[1:], lengths)])  # earlier rows are before the first key
        found = varlen_attn(*given, **said)
        self.near(found[seen], wanted[seen], torch.float32)
        self.assertEqual(found.isnan().sum().item(), 0)
        if hasattr(varlen, "varlen_attn_out"):
            out = torch.full_like(query, 7)
            varlen.varlen_attn_out(out, *given, **said)
            self.assertTrue(torch.equal(out, found))

    def test_compiled(self):
        seams = torch.tensor(SEAMS, dtype=torch.int32)
        given = made(torch.float32)

        def attend(query, key, value):
            return varlen_attn(query, key, value, seams, seams, LONGEST, LONGEST, enable_gqa=True).sin().sum()

        whole = torch.compile(attend, backend="aot_eager", fullgraph=True)
        for found, wanted in zip(torch.autograd.grad(whole(*given), given), torch.autograd.grad(attend(*given), given)):
            self.assertTrue(torch.equal(found, wanted))

    def test_disabled_it_is_as_pytorch_has_it(self):
        seams = torch.tensor(SEAMS, dtype=torch.int32)
        clattn.torch.disable()
        try:
            with self.assertRaises(NotImplementedError):
                varlen_attn(*made(torch.float32), seams, seams, LONGEST, LONGEST, enable_gqa=True)
        finally:
            clattn.torch.enable()


if __name__ == "__main__":
    unittest.main()
