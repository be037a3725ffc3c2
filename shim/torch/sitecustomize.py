"""`sparseshim run` puts the folder of this file first into PYTHONPATH of Python programs that MPI starts.

Python imports it before the program. It may hide a sitecustomize of the site, which it imports in its stead.
"""
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def begin():
    try:
        from sparseshim_torch import start

        start.begin()
    except Exception as error:  # the program starts all the same
        print(f"sparseshim: torch.distributed stays as it is: {error!r}", file=sys.stderr)


def import_hidden():
    """Imports the sitecustomize that Python would have found without this one, if there is one."""
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != FOLDER]  # which start.py needs no longer
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


begin()
import_hidden()
