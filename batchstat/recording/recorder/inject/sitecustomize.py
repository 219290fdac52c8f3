"""Comes first on the path of every Python that `batchstat run` starts: begins to record, then does
what the environment's own sitecustomize does, which this one hides.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location

_HERE = os.path.dirname(os.path.abspath(__file__))


def _record() -> None:
    """Load the recorder from the folder above as a package of its own, and let it record."""
    folder = os.path.dirname(_HERE)
    spec = spec_from_file_location(
        "batchstat_recorder",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["batchstat_recorder"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    import_module("batchstat_recorder.watching").watch()


# The command's path is as without batchstat, and the import below does not find this file again.
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != _HERE]
if os.environ.get("BATCHSTAT_RUN"):
    try:
        _record()
    except Exception as error:  # the command must go on as it would without
        print("batchstat: not recording: %r" % error, file=sys.stderr)

# Python is importing this module under that name, which hides the environment's own.
_this = sys.modules.pop("sitecustomize", None)
try:
    import_module("sitecustomize")
except ImportError as error:
    # Raised inside the environment's own, so that Python reports it as it would without this one.
    if error.name != "sitecustomize":
        raise
finally:
    if _this is not None:
        sys.modules.setdefault("sitecustomize", _this)
