"""clattn.mpi on two and three ranks of MPI, against clattn.attention and clattn.gradients of the whole. `test_mpi.py
rank` is one of the ranks, which mpirun starts."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from page_programs import check_ranks, program_of

MPIRUN = os.path.join(os.environ.get("CLATTN_SOURCE", "."), "tests/mpi/mpirun")
BESIDE = os.path.join(os.path.dirname(os.environ.get("CLATTN_LIBRARY", "")), "libclattn_mpi.so.0")
if os.path.exists(BESIDE):
    os.environ.setdefault("CLATTN_MPI_LIBRARY", BESIDE)
IS_RANK = sys.argv[1:] == ["rank"]
HEADS, KV_HEADS, ROWS, KEYS, COLUMNS = 6, 3, 50, 61, 16


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


class Rank(unittest.TestCase):
    """Every rank runs all of these, in one order: they talk to each other."""

    @classmethod
    def setUpClass(cls):
        import clattn.mpi
        from mpi4py import MPI
        cls.clattn, cls.comm = clattn, MPI.COMM_WORLD
        cls.ranks = clattn.mpi.Ranks(MPI.COMM_WORLD)
        cls.query, cls.dout = normal(2, HEADS, ROWS, COLUMNS), normal(2, HEADS, ROWS, COLUMNS, seed=3)
        cls.key, cls.value = (normal(2, KV_HEADS, KEYS, COLUMNS, seed=seed) for seed in (1, 2))

    @classmethod
    def tearDownClass(cls):
        cls.ranks.close()

    def part(self, array, layout="contiguous", axis=-2):
        return self.clattn.mpi.rows_of(self.comm, array, layout, axis)

    def near(self, found, right):
        self.assertEqual(found.shape, right.shape)
        self.assertLess(np.abs(found - right).max(initial=0), 5e-6 * max(1, np.abs(right).max(initial=0)))

    def both_ways(self, layout="contiguous", algorithm="auto", of_rows=None, **said):
        parts = [self.part(x, layout) for x in (self.query, self.key, self.value)]
        own = {name: self.part(x, layout) for name, x in (of_rows or {}).items()}
        how = dict(said, layout=layout, algorithm=algorithm, **own)
        out, lse = self.ranks.attention(*parts, return_lse=True, **how)
        said = dict(said, **(of_rows or {}))
        right, right_lse = self.clattn.attention(self.query, self.key, self.value, return_lse=True, **said)
        self.near(out, self.part(right, layout))
        self.near(lse, self.part(right_lse, layout, axis=-1))
        if algorithm == "queries":  # has no gradients
            return
        found = self.ranks.gradients(*parts, out, lse, self.part(self.dout, layout), **how)
        right = self.clattn.gradients(self.query, self.key, self.value, self.dout, **said)
        for name, array in found.items():
            self.near(array, self.part(right[name], layout))

    def test_layouts(self):
        for layout in "contiguous", "zigzag", "striped":
            with self.subTest(layout):
                self.both_ways(layout, "keys", causal="bottom-right")

    def test_heads_and_queries(self):
        for algorithm in ("queries", "heads") if KV_HEADS % self.comm.size == 0 else ("queries",):
            with self.subTest(algorithm):
                self.both_ways("zigzag", algorithm, causal="top-left", scale=0.3)

    def test_window_slopes_sinks(self):
        slopes, sinks = np.linspace(0.1, 0.5, HEADS), np.linspace(-1, 1, HEADS)
        self.both_ways("zigzag", window=(20, 3), alignment="top-left", slopes=slopes, sinks=sinks, softcap=9.0)

    def test_mask_bias_lengths(self):
        mask = np.random.default_rng(5).random((ROWS, KEYS)) < 0.7
        self.both_ways("striped", "keys", of_rows={"mask": mask, "bias": normal(ROWS, KEYS, seed=4)},
                       key_lengths=[KEYS, 40])

    def test_decode(self):
        query = self.query[:, :, :1]
        found = self.ranks.decode(query, self.part(self.key), self.part(self.value))
        self.near(found, self.clattn.attention(query, self.key, self.value))
        self.assertEqual(len({x.tobytes() for x in self.comm.allgather(found)}), 1)
        self.assertIn("tree", self.ranks.explain())

    def test_three_axes(self):
        found = self.ranks.attention(*(self.part(x[0]) for x in (self.query, self.key, self.value)))
        self.near(found, self.part(self.clattn.attention(self.query[0], self.key[0], self.value[0])))

    def test_ranks_without_rows(self):
        query, few = self.query[:, :, :1], [x[:, :, :1] for x in (self.key, self.value)]
        found = self.ranks.attention(self.part(query), *map(self.part, few))
        self.near(found, self.part(self.clattn.attention(query, *few)))

    def refused(self, error, text, **said):
        """On all ranks, where it is the last one's error; and the next call is right."""
        parts = [self.part(x) for x in (self.query, self.key, self.value)]
        is_last = self.comm.rank == self.comm.size - 1
        with self.assertRaises(error if is_last else (error, self.clattn.InvalidArgument)) as raised:
            self.ranks.attention(*parts, **(said if is_last else {}))
        self.assertRegex(str(raised.exception), text if is_last else f"rank {self.comm.size - 1}|{text}")
        self.near(self.ranks.attention(*parts), self.part(self.clattn.attention(self.query, self.key, self.value)))

    def test_wrong_on_one_rank(self):
        self.refused(self.clattn.InvalidArgument, "causal 'left': must be", causal="left")
        self.refused(TypeError, "unexpected keyword argument 'scales'", scales=1)
        self.refused(self.clattn.InvalidArgument, "window_size: is not an option here", window_size=1)
        self.refused(self.clattn.InvalidShape, "mask: has shape", mask=np.ones((2, 3), dtype=bool))
        self.refused(self.clattn.InvalidArgument, "scale '1': must be", scale="1")

    def test_not_alike(self):
        parts = [self.part(x) for x in (self.query, self.key, self.value)]
        with self.assertRaisesRegex(self.clattn.InvalidArgument, "softcap"):
            self.ranks.attention(*parts, softcap=1.0 + self.comm.rank)
        with self.assertRaisesRegex(self.clattn.InvalidShape, "as rows_of"):
            self.ranks.attention(parts[0][:, :, self.comm.rank == self.comm.size - 1:], *parts[1:])


class Launch(unittest.TestCase):
    def mpirun(self, count, *words, **more):
        return subprocess.run([MPIRUN, "-n", str(count), sys.executable, "-B", *words], env={**os.environ, **more},
                              capture_output=True, text=True)

    def ranks(self, count):
        with tempfile.TemporaryDirectory() as folder:
            done = self.mpirun(count, __file__, "rank", CLATTN_TEST_TOLD=folder)
            told = sorted(os.listdir(folder))
        self.assertEqual((done.returncode, told), (0, [f"right-{rank}" for rank in range(count)]),
                         done.stdout + done.stderr)

    @unittest.skipUnless(os.environ.get("CLATTN_TEST_LONG"), "three ranks have what two have: ./check --long")
    def test_two(self):
        self.ranks(2)

    def test_three(self):
        self.ranks(3)

    def test_the_page_s_program(self):
        with program_of("ranks.md", 1) as path:
            check_ranks(self, self.mpirun(2, path))


def be_rank():
    """Tells in a file that all was right: the ranks' outputs mix."""
    from mpi4py import MPI
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Rank)
    result = unittest.TextTestRunner(stream=sys.stderr).run(tests)
    if result.wasSuccessful() and result.testsRun:
        with open(os.path.join(os.environ["CLATTN_TEST_TOLD"], f"right-{MPI.COMM_WORLD.rank}"), "w"):
            pass
    return 0 if result.wasSuccessful() else 1


if IS_RANK:
    sys.exit(be_rank())
del Rank  # is the ranks' own
if not shutil.which("mpirun"):
    raise unittest.SkipTest("no mpirun")
try:  # in a process of its own, so that this one is no rank
    subprocess.run([sys.executable, "-c", "import clattn.mpi"], check=True, capture_output=True, text=True)
except subprocess.CalledProcessError as error:
    raise unittest.SkipTest(f"clattn.mpi: {error.stderr.strip().splitlines()[-1]}") from None

if __name__ == "__main__":
    unittest.main()
