import subprocess
import sys
import textwrap

import numpy as np
import pytest

from canarybank.errors import InputError, MissingError
from canarybank.evolve.mauve_score import Mauve

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(200, 8)).astype(np.float32)


def test_alike_clouds_score_high_and_others_low_in_order() -> None:
    shifts = [Mauve()(RNG.normal(size=(200, 8)) + shift, REAL) for shift in (0.0, 0.7, 3.0)]
    assert shifts[0] > 0.9
    assert shifts[0] > shifts[1] > shifts[2]
    assert shifts[2] < 0.1


def test_the_same_seed_gives_the_same_figure() -> None:
    made = RNG.normal(size=(150, 8)) + 0.3
    assert Mauve(seed=3)(made, REAL) == Mauve(seed=3)(made, REAL)


def test_it_is_the_area_under_the_curve_of_its_buckets() -> None:
    # Two far clusters, one bucket each: P = (1/2, 1/2), Q = (1/4, 3/4), the curve in closed form.
    spots = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    jitter = 1e-3 * RNG.normal(size=(80, 3))
    real, made = np.repeat(spots, 40, axis=0) + jitter, np.repeat(spots, [20, 60], axis=0) + jitter

    def divergence(p: np.ndarray, q: np.ndarray) -> float:
        return float((p * np.log(p / q)).sum())

    p, q = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    curve = [(0.0, 1.0)]
    for weight in np.linspace(1e-6, 1 - 1e-6, 25)[::-1]:
        middle = weight * p + (1 - weight) * q
        curve.append((np.exp(-5 * divergence(q, middle)), np.exp(-5 * divergence(p, middle))))
    x, y = np.array(sorted([*curve, (1.0, 0.0)])).T
    area = float(((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2).sum())
    assert Mauve(buckets=2)(made, real) == pytest.approx(area, abs=0.01)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mauve", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[mauve\]'"):
        Mauve()(REAL, REAL)


def test_it_runs_without_torch() -> None:
    program = """
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "transformers"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Absent())
        import numpy as np
        from canarybank.evolve.mauve_score import Mauve
        cloud = np.random.default_rng(0).normal(size=(60, 4))
        print(Mauve()(cloud, cloud) > 0.9 and "torch" not in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_settings_are_checked() -> None:
    for wrong in ({"buckets": 1}, {"scaling": 0.0}, {"restarts": 0}, {"iterations": 0}, {"seed": -1}):
        with pytest.raises(InputError):
            Mauve(**wrong)
    with pytest.raises(InputError, match="says nothing"):
        Mauve()(REAL[:5], REAL)
    with pytest.raises(InputError, match="dimension"):
        Mauve()(REAL, REAL[:, :4])
