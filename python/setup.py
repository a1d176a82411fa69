"""Builds the C library into the package. CLATTN_INSTALL says how:

bundled     (where not set) configure and make of the tree that this folder is in; the command clattn comes with it.
            CLATTN_CONFIGURE has further options of configure, such as --disable-tool (no command, which needs cairo
            and cJSON) or --without-clblast
system      not at all: the package takes the library that is installed on the system, and its command
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools older than 70
    from wheel.bdist_wheel import bdist_wheel

TREE = pathlib.Path(__file__).resolve().parent.parent
HOW = os.environ.get("CLATTN_INSTALL", "bundled")
OPTIONS = shlex.split(os.environ.get("CLATTN_CONFIGURE", ""))
if HOW not in ("bundled", "system"):
    raise SystemExit(f"CLATTN_INSTALL={HOW}: must be bundled or system")


def has_command(options):
    """Whether configure builds the command with these options, of which the last one counts."""
    said = [option for option in options if option.partition("=")[0] in ("--enable-tool", "--disable-tool")]
    return not said or said[-1] not in ("--disable-tool", "--enable-tool=no")


HAS_COMMAND = HOW == "bundled" and has_command(OPTIONS)


def run(command, folder):
    """Runs a step of the build, whose own output says why it failed."""
    try:
        subprocess.run(command, cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"clattn: {error}; CLATTN_INSTALL=system builds nothing and takes the installed "
                         "library") from None


def check_tree():
    """Exits where the tree cannot be built from, and says what to do."""
    if not (TREE / "configure").exists() and not (TREE / "autogen.sh").exists():
        raise SystemExit(f"clattn: {TREE} is no source tree of clattn, whose folder python this must be to build the C "
                         "library; install from a clone, or set CLATTN_INSTALL=system to take the installed library")
    if (TREE / "config.status").exists():
        raise SystemExit(f"clattn: {TREE} is configured in place, and then no other build can be made from it; run "
                         "make distclean there, or set CLATTN_INSTALL=system to take the installed library")


def copy_to(folder, file):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder / file.name)


def build_library(package):
    """libclattn.so.0 of a build of its own into the package's folder lib, and the command into bin."""
    check_tree()
    if not (TREE / "configure").exists():
        run(["./autogen.sh"], TREE)
    with tempfile.TemporaryDirectory() as work:
        run([TREE / "configure", "--disable-static", "--disable-tests", *OPTIONS], work)
        run(["make", f"-j{os.cpu_count() or 1}", "libclattn.la"], work)
        found = [path for name in ("libclattn.so.0", "libclattn.0.dylib")
                 for path in pathlib.Path(work).glob(f".libs/{name}")]
        if not found:
            raise SystemExit("clattn: the build left no shared library; is --disable-shared in CONFIG_SITE?")
        copy_to(package / "lib", found[0])
        if HAS_COMMAND:
            run(["make", f"-j{os.cpu_count() or 1}", "clattn"], work)
            copy_to(package / "bin", pathlib.Path(work) / "clattn")


class BuildPackage(build_py):
    def run(self):
        editable = getattr(self, "editable_mode", False)
        package = pathlib.Path(self.build_lib) / "clattn"
        if not editable:
            for folder in ("lib", "bin"):  # of an earlier build, perhaps one of the other kind
                shutil.rmtree(package / folder, ignore_errors=True)
        super().run()
        if HOW == "bundled" and not editable:
            build_library(package)


class WithLibrary(Distribution):
    """What is built in is of a machine, though Python's compiler built none of it."""

    def has_ext_modules(self):
        return HOW == "bundled"


class AnyPython(bdist_wheel):
    """One wheel for every Python: ctypes needs no ABI of it; only the library is of a machine."""

    def get_tag(self):
        platform = super().get_tag()[2]
        return "py3", "none", platform

    def egg2dist(self, egginfo_path, distinfo_path):
        super().egg2dist(egginfo_path, distinfo_path)
        if (TREE / "LICENSE").exists():
            copy_to(pathlib.Path(distinfo_path) / "licenses", TREE / "LICENSE")


# The licence is here and not in pyproject.toml, where setuptools before 77 wants a table and later ones warn of it.
setup(license="MIT", distclass=WithLibrary, cmdclass={"build_py": BuildPackage, "bdist_wheel": AnyPython},
      entry_points={"console_scripts": ["clattn = clattn._command:main"]} if HAS_COMMAND else {})
