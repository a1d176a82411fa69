"""What the self-check makes of mutants: tests/mutate BUILD --self-check.

A mutant is put into kernels on their way to the driver, as by a bad compiler (tests/icd/mutant_layer.c), which then
does not optimise them (quick_layer.c), so that a mutant takes seconds. Problems that have the feature which it is about
are planned and computed with CLATTN_SELF_CHECK=always. It is caught where the self-check refuses plans and no call
comes out wrong; where one does, a wrong result has reached its caller. What random problems come upon too rarely is
looked for by the mutant's own judge.
"""
import collections
import os
import re
import subprocess
from pathlib import Path

# The judges of whole calls of attention and of its gradients, which is what the self-check is of, and what random
# problems have then.
KINDS = {
    "gradients": [],
    "gradient_bits": [],
    "random": [],
    "exact": [],
    "metamorphic": [],
    "codes": ["--codes", "1"],
    "mixed": ["--mixed", "1"],
    "slow": ["--type", "bfloat16"],
    "tiles": [],
}
MORE = {"slow": {"CLATTN_TEST_SLOW_UNITS": "1"}}
# The features that a problem must have for a mutant to change anything, by what its text speaks of; a line `with: ...`
# in its block says more. tests/support/random_features.c has them.
SPOKEN_OF = {
    "range|all_low|all_high|s->high =|row_low|row_high": "ranges",
    "page|PAGED|hole": "pages",
    "page_starts": "starts",
    "always_visible|pinned": "pinned",
    "window": "window",
    "RING|ring_row|kept,": "ring",
    "SINKS|sink": "sinks",
    "lse": "lse",
    "softcap": "softcap",
    "[Bb]ias": "bias",
    r"->mask\[|mask_key_len|BYTE_OF_QUAD": "mask",
    "slope": "slopes",
    "query_row|key_row[^s]": "varlen",
    "key_lengths|stored_len|key_len;": "lengths",
    "j <= position;": "causal",
    "round <": "dropout",
    r"GROUP\b|query_heads": "group",
    r"\bb \*": "batch",
}
PROBLEMS = 16  # that a mutant is tried with
REFUSALS = 1  # plans that are refused, after which no more are tried
SECONDS = 240  # that a mutant may take: some wait for ever at a barrier


def features_of(mutant):
    if "with" in mutant.said:
        return mutant.said["with"]
    found = [name for pattern, name in SPOKEN_OF.items() if re.search(pattern, mutant.old + mutant.new)]
    return ",".join(f for f in found if f != "pages" or "starts" not in found)


def name_of(mutant):
    """The first line of what it puts in."""
    text = mutant.new.strip().splitlines() or ["without " + mutant.old.strip().splitlines()[0]]
    return text[0].strip()


def included(source, file, seen=None):
    """The files of cl/ that a kernel is made of."""
    seen = set() if seen is None else seen
    if file not in seen and (source / "cl" / file).exists():
        seen.add(file)
        for name in re.findall(r'^#include "([^"]+)"', (source / "cl" / file).read_text(), re.M):
            included(source, name, seen)
    return seen


def kernels_of_strategies(source, build):
    """The kernel files of each strategy of the library's table, which begin with its name: of several, the longest.
    fused_amx has fused_simd's. The forward's of GPUs' matrix units are for devices that are not here."""
    probe = [str(build / "tests" / "units" / "probe"), "--strategies"]
    names = subprocess.run(probe, capture_output=True, text=True, check=True).stdout.split()
    kernels = collections.defaultdict(list)
    for path in sorted((source / "cl").glob("*/*.cl")):
        own = [name for name in names if path.stem == name or path.stem.startswith(name + "_")]
        if own and not path.stem.endswith("_mma"):
            kernels[max(own, key=len)].append(f"{path.parent.name}/{path.name}")
    kernels["fused_amx"] = kernels["fused_simd"]
    return kernels


def parts_of(file):
    """The strategies that a file's products are of, where they are of some alone."""
    of_simd = ["fused_simd"]
    own = {"simd/product_amx.clh": ["fused_amx"], "simd/product_fma.clh": of_simd, "simd/product_dot.clh": of_simd}
    return own.get(file)


def strategies_with(source, kernels, file):
    found = [s for s, own in kernels.items() if any(file in included(source, kernel) for kernel in own)]
    return [s for s in found if s in (parts_of(file) or found)]


def program_of(kind):
    return "gradients/random_gradients" if kind.startswith("gradient") else "random_calls"


class Run:
    """Random problems under a mutant: how many plans were refused, and the first call that came out wrong."""

    def __init__(self, command, environment):
        self.refused, self.wrong, self.built = 0, None, True
        with subprocess.Popen(
            ["timeout", "--kill-after=5", str(SECONDS), "stdbuf", "-oL", *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            for line in process.stdout:
                self.read(line)
                if self.refused >= REFUSALS or self.wrong or not self.built:
                    process.terminate()
                    break
            process.stdout.close()
        self.ended = process.wait() in (124, 137, -9)

    def read(self, line):
        self.built &= "BUILD_FAILED" not in line
        self.refused += line.startswith("refused: ")
        if line.startswith("FAIL") and "was not tested" not in line:
            self.wrong = line.strip()


class Trial:
    def __init__(self, tools, build):
        self.tools, self.build = tools, build
        layers = (build / "tests" / "icd" / ".libs").resolve()
        self.environment = {
            "OPENCL_LAYERS": f"{layers}/mutant_layer.so:{layers}/quick_layer.so",
            "QUICK_LAYER_ALL": "1",
            "CLATTN_WISDOM_DIR": "",
            "CLATTN_CACHE": "off",
        }

    def by_random_problems(self, kind, strategy, features, layer):
        command = [str(self.build / "tests" / program_of(kind)), "--strategy", strategy, "--seed", "5"]
        command += ["--count", str(PROBLEMS), "--work", "400000", *KINDS[kind]]
        command += ["--type", self.tools["types"][strategy]] if strategy in self.tools["types"] else []
        features = ",".join(filter(None, [features, "decoding" if strategy.startswith("split") else ""]))
        command += ["--with", features] if features else []
        environment = dict(os.environ, **self.environment, **layer, **MORE.get(kind, {}))
        environment.update(self.tools["units"](self.build / "tests", strategy))
        return Run(command, dict(environment, CLATTN_SELF_CHECK="always"))

    def by_its_judge(self, mutant, layer):
        """As tests/mutate does: the first call that fails without the self-check, made again with it."""
        command, more = self.tools["command_of"](self.build, mutant)
        driver = dict(self.environment, **layer, **more)
        again = self.tools["failure"](command, dict(driver, CLATTN_SELF_CHECK="off"))
        if not again:
            return "noticed by no call"
        reached = self.tools["comes_out_wrong"](again, dict(driver, CLATTN_SELF_CHECK="always"))
        return "CAME THROUGH: " + " ".join(again[1:]) if reached else "caught"

    def verdict(self, mutant, strategy, features):
        kind, own = mutant.judge.split()
        layer = {"MUTANT_OLD": mutant.old, "MUTANT_NEW": mutant.new}
        run = self.by_random_problems(kind, strategy, features, layer)
        if not run.built:
            return "does not compile"
        if run.wrong:
            return "CAME THROUGH: " + run.wrong
        if run.refused:
            return "caught"
        if run.ended:
            return "waits for ever"
        return self.by_its_judge(mutant, layer) if strategy == own else "noticed by no call"


def pairs_of(source, build, mutants, everywhere):
    """(mutant, strategy), those of one strategy together."""
    pairs, kernels = [], kernels_of_strategies(source, build)
    for mutant in mutants:
        kind, own = mutant.judge.split()
        if kind.startswith("gradient"):
            pairs.append((mutant, own))
        elif kind in KINDS:
            others = strategies_with(source, kernels, Path(mutant.file).name) if everywhere else []
            pairs += [(mutant, s) for s in dict.fromkeys([own, *others]) if s in kernels]
    return sorted(pairs, key=lambda pair: pair[1])


def run(source, build, mutants, tools, everywhere):
    """Prints a line for each; returns how many came through."""
    trial, counts = Trial(tools, build), collections.Counter()
    for mutant, strategy in pairs_of(source, build, mutants, everywhere):
        features = features_of(mutant)
        same = [f"{word}: {mutant.said[word]}" for word in ("equal", "bits") if word in mutant.said]
        verdict = same[0] if same else trial.verdict(mutant, strategy, features)
        counts[strategy, verdict.split(":")[0]] += 1
        print(f"{strategy:<11} {verdict:<18} [{features}] {mutant.file}: {name_of(mutant)}", flush=True)
    for (strategy, verdict), count in sorted(counts.items()):
        print(f"{count:4} of {strategy}: {verdict}")
    return sum(count for (_, verdict), count in counts.items() if verdict.isupper())
