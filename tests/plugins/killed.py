"""A process of a plug-in that is killed by SIGKILL leaves nothing behind that the next one could stumble over.

usage: killed.py NAME COMMAND...

COMMAND --once tells a result's bits, as its last line, and ends; COMMAND --for-ever tells them and computes until it is
killed. Each has folders of its own for temporary files, compiled programs, wisdom, state and home. Killed before it has
a result, at three moments, it leaves no temporary file, and the next one tells the same bits. Killed amid its calls, it
holds no lock and no memory that would outlive it, has no file there open for writing, and leaves no file that one that
ends by itself does not leave; nor does the next one. The driver's folder, POCL_CACHE_DIR, stays as it is."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

VARIABLES = {"TMPDIR": "temporary", "CLATTN_CACHE_DIR": "programs", "CLATTN_WISDOM_DIR": "wisdom", "HOME": "home",
             "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "XDG_RUNTIME_DIR": "runtime"}
# What ONNX Runtime makes itself when it is loaded: a file where temporary files go, a data base in its cache.
OF_OTHERS = {".ses", ".onnxruntime"}
passed, failed = 0, 0


def judge(what, difference):
    global passed, failed  # pylint: disable=global-statement
    if difference:
        print(f"FAILED: {sys.argv[1]}: {what}: {difference}")
    passed, failed = passed + (not difference), failed + bool(difference)


class Folders:
    def __init__(self, at):
        self.at = pathlib.Path(at).resolve()
        for name in VARIABLES.values():
            (self.at / name).mkdir()
        drivers = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pocl"
        self.environment = {"POCL_CACHE_DIR": str(drivers), **os.environ,
                            **{variable: str(self.at / name) for variable, name in VARIABLES.items()}}

    def start(self, how):
        return subprocess.Popen([*sys.argv[2:], how], stdout=subprocess.PIPE, env=self.environment, text=True)

    def once(self):
        with self.start("--once") as process:
            text = process.communicate()[0]
        return (text.splitlines() or [""])[-1] if process.returncode == 0 else f"status {process.returncode}"

    def paths(self, of_others=False):
        return [path for path in self.at.rglob("*")
                if path.is_file() and bool(OF_OTHERS & set(path.parts)) == of_others]

    def files(self):
        return {str(path.relative_to(self.at)) for path in self.paths()}

    def temporary(self):
        return {name for name in self.files() if name.startswith("temporary")}


def killed_early(folders, right):
    for seconds in (0.05, 0.2, 0.6):
        with folders.start("--for-ever") as process:
            time.sleep(seconds)
            process.kill()
    judge("temporary files, killed early", folders.temporary())
    judge("the result after those that were killed early", "" if folders.once() == right else "another one")


def outlives(process, folders):
    """What a process has that its end would not take along, or leave half done."""
    of = pathlib.Path(f"/proc/{process.pid}")
    mapped = {line.split()[-1] for line in (of / "maps").read_text().splitlines() if "/dev/shm/" in line}
    system_v = [line for line in pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()
                if str(process.pid) in line.split()]
    others = {str(path): path.stat().st_ino for path in folders.paths(of_others=True)}
    locks = [line for line in pathlib.Path("/proc/locks").read_text().splitlines() if str(process.pid) in line.split()
             and int(line.split()[5].split(":")[2]) not in others.values()]  # device, its part, inode
    written = []
    for number in os.listdir(of / "fd"):
        try:
            name, flags = os.readlink(of / "fd" / number), (of / "fdinfo" / number).read_text().split("flags:")[1]
        except OSError:  # closed meanwhile
            continue
        is_read = int(flags.split()[0], 8) & os.O_ACCMODE == os.O_RDONLY
        if name.startswith(str(folders.at)) and name not in others and not is_read:
            written.append(name)
    return [*mapped, *system_v, *locks, *written]


def killed_amid_calls(folders, right):
    with folders.start("--for-ever") as process:
        line = process.stdout.readline()
        while line and line.strip() != right:  # a library may have said something before
            line = process.stdout.readline()
        judge("computes what one that ends by itself does", "" if line else "another result")
        time.sleep(0.05)
        judge("what it has amid its calls", outlives(process, folders))
        process.kill()
    judge("is killed", process.returncode + signal.SIGKILL)


def main():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two, \
            tempfile.TemporaryDirectory() as three:
        untouched, folders = Folders(one), Folders(two)
        right = untouched.once()
        judge("tells a result", "" if right and not right.startswith("status") else right or "nothing")
        judge("compiled programs are kept", "" if any("programs" in name for name in untouched.files()) else "none is")
        killed_amid_calls(folders, right)
        judge("files, killed amid its calls", folders.files() - untouched.files())
        judge("the next result", "" if folders.once() == right else "another one")
        judge("files behind the next", folders.files() ^ untouched.files())
        killed_early(Folders(three), right)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
