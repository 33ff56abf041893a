import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from canarybank.errors import InputError, MissingError
from canarybank.measure import Mauve, precision_recall


def naive(generated: np.ndarray, real: np.ndarray, k: int) -> tuple[float, float]:
    """Point by point, with distances of differences."""

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.sqrt(((a.astype(np.float64) - b.astype(np.float64)) ** 2).sum()))

    def covered(points: np.ndarray, centres: np.ndarray) -> float:
        radii = [
            sorted(distance(c, other) for j, other in enumerate(centres) if j != i)[k - 1]
            for i, c in enumerate(centres)
        ]
        hits = [any(distance(p, c) <= r + 1e-9 for c, r in zip(centres, radii, strict=True)) for p in points]
        return sum(hits) / len(points)

    return covered(generated, real), covered(real, generated)


@pytest.mark.parametrize(("k", "dimension", "shift"), [(1, 3, 0.4), (3, 5, 0.8), (5, 2, 1.5)])
def test_it_is_the_naive_twin(k: int, dimension: int, shift: float) -> None:
    rng = np.random.default_rng(k)
    real = rng.normal(size=(70, dimension)).astype(np.float32)
    generated = (0.7 * rng.normal(size=(55, dimension)) + shift).astype(np.float32)
    generated[:5], generated[7] = real[:5], generated[6]  # copies of real ones, and of one another
    found = precision_recall(generated, real, neighbours=k)
    assert (found.precision, found.recall) == naive(generated, real, k)
    assert 0 < found.recall < 1


def test_clouds_of_several_blocks_of_distances_are_as_by_all_distances_at_once() -> None:
    rng = np.random.default_rng(4)
    real, generated = rng.normal(size=(2400, 3)), rng.normal(size=(2200, 3)) + 0.8
    found = precision_recall(generated, real)
    for points, centres, share in ((generated, real, found.precision), (real, generated, found.recall)):
        radii = np.sort(cdist(centres.astype(np.float32), centres.astype(np.float32)), axis=1)[:, 3]
        inside = cdist(points.astype(np.float32), centres.astype(np.float32)) <= radii
        assert share == pytest.approx(inside.any(axis=1).mean(), abs=1e-3)
        assert 0.1 < share < 1
        if points is generated:
            assert found.coverage == pytest.approx(inside.any(axis=0).mean(), abs=1e-3)
            assert found.density == pytest.approx(inside.sum() / (3 * len(points)), abs=1e-3)


def test_alike_clouds_cover_each_other_and_far_ones_do_not() -> None:
    cloud = np.random.default_rng(0).normal(size=(300, 4))
    same = precision_recall(cloud, cloud)
    assert (same.precision, same.recall, same.neighbours) == (1.0, 1.0, 3)
    apart = precision_recall(cloud + 100, cloud)
    assert (apart.precision, apart.recall) == (0.0, 0.0)


def test_a_narrow_cloud_is_precise_and_has_little_recall() -> None:
    rng = np.random.default_rng(1)
    found = precision_recall(0.1 * rng.normal(size=(300, 4)), rng.normal(size=(300, 4)))
    assert found.precision > 0.95
    assert found.recall < 0.1


def test_copies_are_inside_even_where_every_ball_is_a_point() -> None:
    # Each real point stands four times, so its third neighbour is at no distance; rounding, which differs between
    # products of different shapes, must not push a copy out.
    points = np.random.default_rng(2).normal(size=(600, 384))
    real = np.repeat(points / np.linalg.norm(points, axis=1, keepdims=True), 4, axis=0).astype(np.float32)
    found = precision_recall(real[::4][:597], real)
    assert (found.precision, found.recall) == (1.0, 1.0)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="3-th nearest neighbour needs more than 3"):
        precision_recall(np.eye(3), np.eye(3))
    with pytest.raises(InputError, match="dimension"):
        precision_recall(np.eye(5), np.eye(6))
    with pytest.raises(InputError, match="neighbours"):
        precision_recall(np.eye(5), np.eye(5), neighbours=0)


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
        from canarybank.measure import Mauve
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


@pytest.mark.parametrize(("limit", "alone"), [(1_000_000, True), (10, False)])
def test_mauve_of_few_points_takes_one_thread(limit, alone, monkeypatch):
    """Threads wait for one another a hundred times longer than so few points take."""
    package, threads = pytest.importorskip("mauve"), pytest.importorskip("threadpoolctl")
    seen = []

    def told(**_):
        seen.extend(each["num_threads"] for each in threads.threadpool_info())
        return SimpleNamespace(mauve=0.5)

    monkeypatch.setattr(package, "compute_mauve", told)
    monkeypatch.setattr("canarybank.measure.comparison.FEW_DISTANCES", limit)
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    with threads.threadpool_limits(2):
        assert Mauve(buckets=3)(vectors, vectors) == 0.5
    assert set(seen) == {1 if alone else 2}
