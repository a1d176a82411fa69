"""Intel's OpenCL runtime for CPUs as the Python registry has it (clattn[cpu]), for machines without any driver."""
import os
import sys
from typing import Optional

_PACKAGE, _LIBRARY = "intel-opencl-rt", "libintelocl.so"
_VENDORS = "/etc/OpenCL/vendors"
_TOLD_OTHERWISE = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")


def _library_of_package() -> Optional[str]:
    """The path of the package's library; None where the package is not installed."""
    import importlib.metadata  # with what it imports, a third of the time of `import clattn`
    try:
        files = importlib.metadata.files(_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [os.path.realpath(file.locate()) for file in files if file.name == _LIBRARY]
    return next((path for path in found if os.path.exists(path)), None)


def _has_driver() -> bool:
    try:
        return any(name.endswith(".icd") for name in os.listdir(_VENDORS))
    except OSError:
        return False


def find() -> None:
    """Tells the OpenCL loader, by OCL_ICD_VENDORS, of Intel's runtime where that is installed as a Python package. Only
    where the system has no driver and the environment names none: the variable takes the place of the system's. Before
    the loader's first call, which reads it once."""
    if sys.platform != "linux" or any(name in os.environ for name in _TOLD_OTHERWISE):
        return
    if _has_driver():
        return
    path = _library_of_package()
    if path:
        os.environ["OCL_ICD_VENDORS"] = path
