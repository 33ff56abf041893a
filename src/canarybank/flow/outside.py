"""Take public examples from users who play no role, for a bank that is shown some."""

from canarybank.errors import CohortError
from canarybank.seeds import stream
from canarybank.users import Cohorts, Users

__all__ = ["outside_examples"]


def outside_examples(users: Users, cohorts: Cohorts, *, count: int, seed: int) -> tuple[str, ...]:
    """Return one record each of so many users who are in no cohort and are no canary, drawn by seed."""
    playing = {
        name for cohort in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation) for name in cohort.users.ids
    }
    playing |= {name for canaries in cohorts.canaries.values() for name in canaries.ids}
    rest = sorted(name for name in users.ids if name not in playing)
    if len(rest) < count:
        raise CohortError(
            f"{count} public examples need as many users outside all cohorts, and {len(rest)} of {len(users)} are "
            "left; use smaller cohorts or fewer examples."
        )
    rng = stream(seed, "outside", "examples")
    places = {name: index for index, name in enumerate(users.ids)}
    drawn = users.take([places[rest[i]] for i in rng.permutation(len(rest))[:count]])
    texts, counts = drawn.require_texts(), drawn.counts
    starts = counts.cumsum() - counts
    return tuple(texts[start + int(rng.integers(size))] for start, size in zip(starts, counts, strict=True))
