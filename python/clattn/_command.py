"""The command clattn that is in the wheel, in place of this process. To import the package has told the OpenCL loader
of a runtime, by the environment, which the command gets."""
import os
import pathlib
import sys

_PROGRAM = pathlib.Path(__file__).parent / "bin" / "clattn"


def main() -> None:
    """What the script `clattn` of a Python environment calls."""
    if not _PROGRAM.exists():
        sys.exit(f"clattn: {_PROGRAM} is not there: this package was built without the command")
    os.execv(_PROGRAM, ["clattn", *sys.argv[1:]])
