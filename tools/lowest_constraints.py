"""Print the lowest version of everything that pyproject.toml asks for, as a constraints file of pip.

    python tools/lowest_constraints.py > lowest.txt
    pip install -c lowest.txt .

`make test-versions` tests the light core with them. Without arguments the dependencies of the light core are printed;
names of extras add theirs.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_LOWEST = re.compile(r"([\w.-]+)(?:\[[^]]*])?(?:>=|==)([\w.]+)")


def lowest(requirement: str) -> str | None:
    """Return a requirement's lowest version as a constraint; None where it names no lowest one.

    >>> lowest("numpy>=2.2"), lowest("omegaconf>=2.3,<2.4"), lowest("torch")
    ('numpy==2.2', 'omegaconf==2.3', None)
    """
    found = _LOWEST.match(requirement)
    return f"{found[1]}=={found[2]}" if found else None


def constraints(extras: list[str]) -> list[str]:
    """Return the constraints of the light core and of these extras, sorted."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(each for name in extras for each in project["optional-dependencies"][name])]
    return sorted({bound for requirement in asked if (bound := lowest(requirement))})


if __name__ == "__main__":
    print("\n".join(constraints(sys.argv[1:])))
