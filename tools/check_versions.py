"""Test the light core with every Python that is supported, and with the lowest versions that pyproject.toml allows.

    python tools/check_versions.py            all Pythons that are found, and the lowest versions
    python tools/check_versions.py 3.13       one of them
    python tools/check_versions.py lowest     the lowest versions, with the oldest Python

`make test-versions` does so. Each environment stays in `.versions/` and is made anew when pyproject.toml changes. A
Python that is not on this machine is named at the end, and is not a failure. Packages come from pip.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".versions"
PYTHONS = ("3.11", "3.12", "3.13")
LOWEST = "lowest"
TOOLS = ("pytest>=9", "pytest-timeout>=2.4", "pytest-xdist>=3.6", "hypothesis>=6.120", "mpmath>=1.3", "pyyaml>=6")
TESTS = (
    *("tests/mechanism", "tests/score", "tests/attack", "tests/users", "tests/store", "tests/report/figures"),
    *("tests/cli/test_audit.py", "tests/cli/test_users_file.py", "tests/cli/test_gate.py", "tests/cli/test_config.py"),
    *("tests/testing/test_pytest_plugin.py", "tests/test_errors.py", "tests/test_registry.py", "tests/test_top.py"),
)


def find_python(version: str) -> str | None:
    """Return a Python of a version that starts on this machine; None where there is none."""
    wanted = f"import sys; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    for name in (shutil.which(f"python{version}"), sys.executable):
        if name and subprocess.run([name, "-c", wanted], capture_output=True, check=False).returncode == 0:  # noqa: S603
            return name
    return None


def environment(name: str, python: str) -> Path:
    """Return the Python of an environment that holds the light core and what its tests need, made anew when due."""
    place = PLACE / name
    mark = place / "made-of"
    constraints = PLACE / f"{name}.txt"
    PLACE.mkdir(exist_ok=True)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    if name == LOWEST:
        lines = subprocess.run(  # noqa: S603, our own tool
            [sys.executable, ROOT / "tools" / "lowest_constraints.py"], capture_output=True, text=True, check=True
        ).stdout
    constraints.write_text(lines, encoding="utf-8")
    made_of = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + lines.encode()).hexdigest()
    if not mark.is_file() or mark.read_text(encoding="utf-8") != made_of:
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([python, "-m", "venv", place], check=True)  # noqa: S603
        pip = (place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([*pip, "-c", constraints, "-e", ROOT, *TOOLS], check=True)  # noqa: S603
        mark.write_text(made_of, encoding="utf-8")
    return place / "bin" / "python"


def test(name: str, python: str) -> bool:
    """Run the tests of the light core in an environment, and say whether they pass."""
    print(f"== {name}: {python}", flush=True)
    words = (environment(name, python), "-m", "pytest", "-q", "-n", os.environ.get("WORKERS", "auto"))
    chosen = ("-m", "not slow and not models and not browser", "-p", "no:cacheprovider")
    if name == LOWEST:  # an old package among new ones warns of what it uses of them
        chosen += ("-W", "default")
    return subprocess.run([*words, *chosen, *TESTS], cwd=ROOT, check=False).returncode == 0  # noqa: S603


def main(asked: list[str]) -> int:
    """Test with what was asked for, or with all; return the exit code."""
    names = asked or [*PYTHONS, LOWEST]
    found = {name: find_python(PYTHONS[0] if name == LOWEST else name) for name in names}
    failed = [name for name, python in found.items() if python and not test(name, python)]
    missing = [name for name, python in found.items() if python is None]
    tested = [name for name, python in found.items() if python and name not in failed]
    print(f"Passed: {', '.join(tested) or 'none'}. Failed: {', '.join(failed) or 'none'}. ", end="")
    print(f"Not on this machine: {', '.join(missing) or 'none'}.")
    return 1 if failed or not tested else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
