"""Builds libclattn_ort.so by CMake into the package, with the libclattn that CMake finds beside it.

CMAKE_PREFIX_PATH names the folder where clattn is installed, CLATTN_ORT_INCLUDE that of onnxruntime_c_api.h; both
may be left out where the system has them.
"""
import os
import pathlib
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools older than 70
    from wheel.bdist_wheel import bdist_wheel

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def build_library(package):
    """libclattn_ort.so and libclattn.so.0 into this folder."""
    named = [f"-D{name}={os.environ[name]}" for name in ("CMAKE_PREFIX_PATH", "CLATTN_ORT_INCLUDE")
             if os.environ.get(name)]
    with tempfile.TemporaryDirectory() as build:
        for command in (["cmake", "-S", SOURCE, "-B", build, "-DCLATTN_ORT_BUNDLE=ON", *named],
                        ["cmake", "--build", build], ["cmake", "--install", build, "--prefix", package]):
            subprocess.run(command, check=True)


class BuildPackage(build_py):
    def run(self):
        super().run()
        build_library(pathlib.Path(self.build_lib).resolve() / "onnxruntime_ep_clattn")


class WithLibrary(Distribution):
    """What is built in is of a machine, though Python's compiler built none of it."""

    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    """One wheel for every Python: ctypes needs no ABI of it; only the library is of a machine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(license="MIT", distclass=WithLibrary, cmdclass={"build_py": BuildPackage, "bdist_wheel": AnyPython})
