"""Ranks of torch.distributed that go away, raise or stand still while clattn.torch.ring_attention computes: the others
raise, in gloo's own time, none hangs, and no result is wrong. CLATTN_BROKEN_RANKS trials of each kind (1; 200 where
CLATTN_TEST_LONG is set). Ranks are forks of this process, which has imported all and used none of it."""
import datetime
import os
import random
import signal
import tempfile
import time
import unittest

import torch
import torch.distributed as dist

import clattn.torch

if not (dist.is_available() and hasattr(os, "fork")):
    raise unittest.SkipTest("no torch.distributed, or no fork")

TRIALS = int(os.environ.get("CLATTN_BROKEN_RANKS") or (200 if os.environ.get("CLATTN_TEST_LONG") else 1))
RANKS = 3
GLOO_S = 3  # how long gloo waits for a rank that stands still
LIMIT_S = 300  # of a trial that hangs: nothing else depends on time
RAISED, WRONG, GONE = 5, 3, 4  # exit statuses


def be_rank(rank, folder, gives_up, gloo_s):
    """Computes until a call raises; `gives_up`: until it has itself something else to raise."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=LIMIT_S))
    torch.manual_seed(0)
    whole = [torch.randn(1, heads, 60, 16) for heads in (4, 2, 2)]
    wanted = clattn.torch.rows_of(clattn.torch.attention(*whole, causal="top-left"), layout="zigzag")
    part = [clattn.torch.rows_of(x, layout="zigzag").requires_grad_() for x in whole]
    group = dist.new_group(timeout=datetime.timedelta(seconds=gloo_s))
    for call in range(10**9):
        try:
            # The first, which compiles, has time.
            out = clattn.torch.ring_attention(*part, group=group if call else None, layout="zigzag", causal="top-left")
            out.square().sum().backward()
        except RuntimeError:
            return RAISED
        if not torch.allclose(out, wanted, atol=4e-6):
            return WRONG
        if call == 0:
            with open(f"{folder}/ready-{rank}", "w", encoding="utf-8"):
                pass
        if gives_up and call == 3:
            return GONE
    return 0


def fork_rank(*arguments):
    process = os.fork()
    if process == 0:
        status = 1
        try:
            status = be_rank(*arguments)
        finally:
            os._exit(status)
    return process


class Broken(unittest.TestCase):
    def trial(self, breaks, gives_up=None, stands_still=None, gloo_s=LIMIT_S):
        """Exit statuses of all ranks, negative where a signal ended them, after breaks(processes). The one that
        stands still goes on once the others have ended."""
        with tempfile.TemporaryDirectory() as folder:
            processes = [fork_rank(rank, folder, rank == gives_up, gloo_s) for rank in range(RANKS)]
            found, end = {}, time.monotonic() + LIMIT_S
            while len([name for name in os.listdir(folder) if name.startswith("ready")]) < RANKS:
                self.assertLess(time.monotonic(), end, "ranks do not begin")
                time.sleep(0.01)
            breaks(processes)
            while len(found) < RANKS and time.monotonic() < end:
                for process in set(processes) - set(found):
                    pid, status = os.waitpid(process, os.WNOHANG)
                    if pid:
                        found[process] = os.waitstatus_to_exitcode(status)
                if stands_still is not None and len(found) == RANKS - 1:
                    os.kill(processes[stands_still], signal.SIGCONT)
                time.sleep(0.01)
            for process in set(processes) - set(found):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        return [found.get(process, "hung") for process in processes]

    def test_killed(self):
        numbers = random.Random(1)
        for number in range(TRIALS):
            broken = numbers.randrange(RANKS)

            def kill(processes):
                time.sleep(0.1 * numbers.random())
                os.kill(processes[broken], signal.SIGKILL)
            with self.subTest(number=number):
                wanted = [-signal.SIGKILL if rank == broken else RAISED for rank in range(RANKS)]
                self.assertEqual(self.trial(kill), wanted)

    def test_raises(self):
        for number in range(TRIALS):
            broken = number % RANKS
            with self.subTest(number=number):
                wanted = [GONE if rank == broken else RAISED for rank in range(RANKS)]
                self.assertEqual(self.trial(lambda _: None, gives_up=broken), wanted)

    @unittest.skipUnless(os.environ.get("CLATTN_TEST_LONG"), "waits for gloo: ./check --long")
    def test_stands_still(self):
        for number in range(TRIALS):
            broken = number % RANKS
            with self.subTest(number=number):
                found = self.trial(lambda processes: os.kill(processes[broken], signal.SIGSTOP),
                                   stands_still=broken, gloo_s=GLOO_S)
                self.assertEqual(found, [RAISED] * RANKS)


if __name__ == "__main__":
    unittest.main()
