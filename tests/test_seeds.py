import numpy as np

from canarybank import seeds


def test_a_path_gives_the_same_stream_again():
    assert np.array_equal(seeds.stream(7, "a", 3).random(5), seeds.stream(7, "a", 3).random(5))


def test_other_paths_and_seeds_give_other_streams():
    paths = [(7, "a", 3), (7, "a", 4), (7, "b", 3), (8, "a", 3), (7, "a"), (7, 3, "a"), (7, "a", "3")]
    draws = {seeds.stream(*path).integers(1 << 62) for path in paths}
    assert len(draws) == len(paths)


def test_streams_at_different_paths_are_uncorrelated():
    # With 100,000 draws a correlation beyond 0.0141 has probability below 1e-5.
    one, other = seeds.stream(1, "x").standard_normal(100_000), seeds.stream(1, "y").standard_normal(100_000)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.0141
