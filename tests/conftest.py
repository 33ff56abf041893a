"""Keep all tests offline: connections that would leave this machine are refused, here and in each Python started."""

import os
import runpy
import sys
from pathlib import Path

GUARD = Path(__file__).parent / "guard"

# A worker of pytest-xdist starts with the guard already in its environment.
if str(GUARD) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(GUARD), os.environ.get("PYTHONPATH")]))
if "sitecustomize" not in sys.modules or Path(sys.modules["sitecustomize"].__file__ or "").parent != GUARD:
    runpy.run_path(str(GUARD / "sitecustomize.py"))
