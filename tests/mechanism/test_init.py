import subprocess
import sys

from canarybank import mechanism


def test_all_names_what_is_exported() -> None:
    public = {
        name for name, value in vars(mechanism).items() if not name.startswith("_") and not isinstance(value, type(sys))
    }
    assert sorted(public | {"contributions", "release"}) == sorted(mechanism.__all__)
    assert all(name.isupper() or callable(getattr(mechanism, name)) for name in mechanism.__all__)


def test_importing_the_room_loads_no_heavy_package() -> None:
    heavy = ["torch", "polars", "matplotlib", "dp_accounting", "opacus"]
    code = f"import sys, canarybank.mechanism; print([n for n in {heavy} if n in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
