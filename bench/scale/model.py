"""Schedules of ranks on simulated networks: ring_model.c, compiled by SimGrid's smpicc, run by smpirun."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
ONE_SWITCH = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="ranks" prefix="rank-" suffix="" radical="0-{last}" speed="1Gf" bw="{bandwidth}" lat="{latency}"{more}/>
</platform>
"""
SHRINK = 1024  # ring_model.c's: the network has so much less bandwidth, and messages are as much smaller
SETTINGS = ("--cfg=smpi/simulate-computation:no", "--cfg=smpi/host-speed:1Gf", "--log=root.thres:critical",
            # A message takes its latency and its bytes by the bandwidth, whatever its size.
            "--cfg=smpi/bw-factor:0:1", "--cfg=smpi/lat-factor:0:1", "--cfg=smpi/async-small-thresh:0",
            "--cfg=smpi/send-is-detached-thresh:0", "--cfg=network/TCP-gamma:0")
FAT_TREE = ' topology="FAT_TREE" topo_parameters="2;32,{switches};1,32;1,1"'  # full bandwidth: 32 ranks a switch


class Model:
    def __init__(self, build):
        for tool in ("smpicc", "smpirun"):
            if not shutil.which(tool):
                sys.exit(f"no {tool}: install SimGrid (Debian: simgrid, libsimgrid-dev)")
        self.folder = Path(tempfile.mkdtemp(prefix="clattn-scale-"))
        build = Path(build).resolve()
        subprocess.run(["smpicc", "-O2", *(f"-I{path}" for path in (HERE, SOURCE / "include")),
                        HERE / "ring_model.c", "-o", self.folder / "ring_model", "-lclattn",
                        f"-L{build / '.libs'}", f"-Wl,-rpath,{build / '.libs'}"], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def seconds(self, ranks, words, bytes_per_s, latency, fat_tree=False):
        """(of the call, of the slowest rank's computing, of computing divided evenly)."""
        switches = -(-ranks // 32)
        more = FAT_TREE.format(switches=switches) if fat_tree else ""
        last = 32 * switches - 1 if fat_tree else ranks - 1
        platform = self.folder / "platform.xml"
        platform.write_text(ONE_SWITCH.format(last=last, bandwidth=f"{bytes_per_s / SHRINK}Bps", latency=latency,
                                              more=more), encoding="utf-8")
        made = subprocess.run(["smpirun", *SETTINGS, "-platform", platform, "-np", str(ranks),
                               self.folder / "ring_model", *words], capture_output=True, text=True, check=True)
        return [float(number) for number in made.stdout.split()]
