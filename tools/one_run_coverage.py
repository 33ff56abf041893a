"""Measure how often one run refutes a true claim: whole runs, with the votes of the built-in users as background.

    python tools/one_run_coverage.py [--runs 2000] [--styles nonce,ordinary] [--canaries 81,409,1638]
        [--background controls|exact] [--json FILE]

A setting is a style of canaries, how many of them, q, the releases of a run and who knows the coins. In each, canaries
and probes are made once and planted; then so many runs are drawn: coins of users and canaries, votes, noise. Each is
judged as ``canarybank score`` judges it. The claim is true, so every refutation is a false alarm, and so is every bound
above the exact epsilon. ``--background exact`` makes scores normal by exact tails first, as a simulation does that
knows its population.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from canarybank.attack.planted import ManyCanaries, canary_scores, make_canaries
from canarybank.auditing import clopper_pearson
from canarybank.auditing.guessing import guessing_lower, order_statistics_lower, wrong_guesses
from canarybank.auditing.known_coins import family_epsilon, rate_lower, shift_between, shift_within
from canarybank.auditing.one_run import Background, Coins, RunDeclaration, RunEvidence, RunScores, judge_run
from canarybank.config import resolve
from canarybank.flow.inputs import gather
from canarybank.mechanism import Bank, Claim, Mechanism, contributions, route
from canarybank.score import normal_scores
from canarybank.seeds import stream
from canarybank.store import StageCache

__all__ = ["Scene", "Setting", "count_false_alarms", "draw_runs", "exact_runs", "make_scene"]

Floats = NDArray[np.float64]
BANKS = {81: 8_192, 409: 8_192, 1_638: 32_768}
"""The entries of the bank that carries so many canaries: a twentieth, a quarter and a quarter of it are probes."""


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    style: str
    canaries: int
    q: float
    rounds: int
    coins: Coins
    sigma: float = 1.0

    @property
    def mechanism(self) -> Mechanism:
        """Return what releases."""
        return Mechanism(q=self.q, sigma=self.sigma)


@dataclass(frozen=True, eq=False)
class Scene:
    """What runs of a setting are drawn from: what each user and each canary adds to each canary's score."""

    background: csr_array
    """Users by canaries."""
    canaries: csr_array
    """Canaries by canaries: its own shift stands on the diagonal."""
    noise: Floats
    """The deviation of each score that the noise makes."""
    shift: float
    """The mean shift that the canaries were designed to have."""

    @property
    def reached(self) -> float:
        """Return the share of canaries that reach the full shift."""
        own = self.canaries.diagonal()
        return float((own >= own.max() * (1 - 1e-9)).mean())


@lru_cache(maxsize=1)
def _public() -> tuple[object, object, tuple[str, ...]]:
    """Return the built-in users, their encoder, and the embedded bank's texts."""
    inputs = gather(resolve(preset="embedded").config, StageCache(), None)
    return inputs.cohorts, inputs.encoder, tuple(inputs.candidates.texts)


@lru_cache(maxsize=2)
def _bank(size: int) -> Bank:
    """Return a bank of so many texts: the embedded ones, and halves of them put together."""
    _, encoder, texts = _public()
    rng, found = stream(0, "coverage", "bank"), dict.fromkeys(texts)
    while len(found) < size:
        one, other = (texts[each].split() for each in rng.integers(len(texts), size=2))
        found[" ".join([*one[: len(one) // 2], *other[len(other) // 2 :]])] = None
    chosen = tuple(found)[:size]
    return Bank(encoder.encode(chosen), chosen)  # type: ignore[attr-defined]


@lru_cache(maxsize=4)
def _planted(style: str, canaries: int) -> tuple[ManyCanaries, Bank]:
    _, encoder, _ = _public()
    mechanism = Mechanism()
    bank = _bank(BANKS.get(canaries, 8_192)).reserve(canaries * mechanism.k, 0)
    many = make_canaries(style, canaries, encoder.encode, bank, mechanism, 0)  # type: ignore[attr-defined]
    return many, many.planted(bank)


@lru_cache(maxsize=4)
def _votes(style: str, canaries: int) -> tuple[csr_array, csr_array]:
    """Return what users and canaries contribute over the planted bank."""
    cohorts, _, _ = _public()
    many, bank = _planted(style, canaries)
    mechanism = Mechanism()
    tables, first = [], 0
    owners: list[NDArray[np.int64]] = []
    for name in ("auxiliary", "calibration", "evaluation"):
        users = getattr(cohorts, name).users
        tables.append(users.require_vectors())
        owners.append(users.owners + first)
        first += len(users)
    routes = route(np.concatenate(tables), bank, mechanism.k)
    users_votes = contributions(routes, np.concatenate(owners), first, bank.size, mechanism.clip)
    records = np.concatenate([each.vectors for each in many.canaries])
    whose = np.repeat(np.arange(len(many)), [len(each) for each in many.canaries])
    own = contributions(route(records, bank, mechanism.k), whose, len(many), bank.size, mechanism.clip)
    return csr_array(users_votes), csr_array(own)


def make_scene(setting: Setting) -> Scene:
    """Plant the canaries of a setting, and project what everybody contributes onto their scores."""
    many, bank = _planted(setting.style, setting.canaries)
    weights = canary_scores(many, bank, setting.mechanism)
    added = (weights.projected(votes) for votes in _votes(setting.style, setting.canaries))
    return Scene(*added, weights.noise(setting.mechanism), float(weights.shifts.mean()))


def draw_runs(
    scene: Scene, setting: Setting, runs: int, rng: np.random.Generator, noise: float = 1.0
) -> Iterator[RunScores]:
    """Draw whole runs, the noise divided by so much."""
    n, m, rounds = scene.background.shape[0], scene.canaries.shape[0], setting.rounds
    apart = setting.coins is Coins.FAIR or setting.q == 1
    for at in range(0, runs, 100):
        some = min(100, runs - at)
        eligible = rng.random((some, m)) < 0.5 if apart else np.ones((some, m), bool)
        took = (rng.random((some, rounds, m)) < setting.q) & eligible[:, None, :]
        users = rng.random((some * rounds, n)) < setting.q
        scores = scene.background.T @ users.T + scene.canaries.T @ took.reshape(-1, m).T.astype(np.float64)
        scores = scores.T + scene.noise / noise * rng.standard_normal((some * rounds, m))
        for one, there, coins in zip(scores.reshape(some, rounds, m), eligible, took, strict=True):
            yield RunScores(one.T, there, coins.T if setting.coins is Coins.KNOWN else None)


def exact_runs(scene: Scene, declared: RunDeclaration, runs: Sequence[RunScores]) -> Iterator[RunScores]:
    """Make the scores of runs normal by exact tails, other canaries' votes taken off where their coins are known.

    All runs share one population, so every canary's law is computed once.
    """
    others = csr_array(scene.canaries - diags_array(scene.canaries.diagonal()))
    scores = [run.scores for run in runs]
    if declared.uses_coins:
        coins = (run.took if run.took is not None else run.eligible[:, None] for run in runs)
        scores = [x - others.T @ took.astype(np.float64) for x, took in zip(scores, coins, strict=True)]
    found = normal_scores(np.hstack(scores), scene.background, declared.claim.q, scene.noise)
    for run, x in zip(runs, np.split(found, len(runs), axis=1), strict=True):
        yield replace(run, scores=x)


def declaration_of(setting: Setting, scene: Scene, background: Background = Background.CONTROLS) -> RunDeclaration:
    """Return what is declared of a setting: a true claim."""
    claim = Claim.of(setting.mechanism, rounds=setting.rounds)
    return RunDeclaration(claim, setting.canaries, setting.coins, scene.shift, background=background)


@dataclass(frozen=True)
class Row:
    """What the runs of one setting showed, by one kind of evidence."""

    style: str
    canaries: int
    q: float
    rounds: int
    evidence: str
    alpha: float
    runs: int
    false_alarms: int
    lower: float
    upper: float
    epsilon: float
    """The bound at the medians of shift and rate, or of right guesses."""
    truth: float
    expected: float
    full: float
    """The share of canaries that reach the full shift."""


def count_false_alarms(
    setting: Setting, runs: int, seed: int = 0, background: Background = Background.CONTROLS
) -> list[Row]:
    """Draw runs of a setting, judge each, and count what was refuted."""
    scene = make_scene(setting)
    declared = declaration_of(setting, scene, background)
    rng = stream(seed, "coverage", *(str(each) for each in asdict(setting).values()))
    alarms = dict.fromkeys(declared.evidence, 0)
    typical: dict[RunEvidence, list[tuple[float, float]]] = {kind: [] for kind in declared.evidence}
    shares = dict(declared.ledger.entries)
    drawn = draw_runs(scene, setting, runs, rng)
    for run in exact_runs(scene, declared, list(drawn)) if background is Background.EXACT else drawn:
        for kind in declared.evidence:
            found, suspected = _quick(declared, shares, run, kind)
            typical[kind].append(found)
            if suspected:  # epsilon costs more than all the rest, and is needed for none of the others
                (shown,) = judge_run(
                    replace(declared, evidence=(kind,), alpha=declared.alpha / len(declared.evidence)), run
                ).shown
                alarms[kind] += shown.refuted or shown.epsilon > declared.claim.epsilon
    rows = []
    for kind in declared.evidence:
        lower, upper = clopper_pearson(alarms[kind], runs, 0.025)
        rate, shift = np.median(np.array(typical[kind]), axis=0)
        rows.append(
            Row(
                setting.style,
                setting.canaries,
                setting.q,
                setting.rounds,
                kind.value,
                declared.alpha / len(declared.evidence),
                runs,
                alarms[kind],
                float(lower),
                float(upper),
                _epsilon(declared, shares, kind, rate, shift),
                declared.claim.epsilon,
                declared.expected(kind).median,
                scene.reached,
            )
        )
    return rows


def _quick(
    declared: RunDeclaration, shares: dict[str, float], run: RunScores, kind: RunEvidence
) -> tuple[tuple[float, float], bool]:
    """Return what the bound comes from, and whether it may refute: where neither bound exceeds the claim, it cannot."""
    claim = declared.claim
    if kind is RunEvidence.KNOWN_COINS:
        took = run.took if run.took is not None else np.repeat(run.eligible[:, None], claim.rounds, axis=1)
        ways = {"between": shift_between, "within": shift_within}
        shift = max(ways[way](run.scores, took, shares[f"known-coins/{way}"]).lower for way in declared.ways)
        rate = rate_lower(took, run.eligible, shares["known-coins/sampler"]) if claim.q < 1 else 1.0
        return (rate, shift), shift > declared.limit or rate > claim.q
    guesses = declared.guesses[kind]
    wrong = wrong_guesses(run.scores, run.eligible, guesses=guesses, q=claim.q, designed=declared.guessed_by)
    return (claim.q, float(wrong)), True


def _epsilon(declared: RunDeclaration, shares: dict[str, float], kind: RunEvidence, rate: float, found: float) -> float:
    claim = declared.claim
    if kind is RunEvidence.KNOWN_COINS:
        return family_epsilon(float(rate), float(found), claim.rounds, claim.delta)
    guesses, wrong = declared.guesses[kind], round(found)
    if kind is RunEvidence.GUESSING:
        return guessing_lower(declared.canaries, guesses, guesses - wrong, delta=claim.delta, alpha=shares[kind.value])
    shift = order_statistics_lower(
        declared.canaries,
        guesses,
        wrong,
        q=claim.q,
        designed=declared.guessed_by,
        rounds=claim.rounds,
        alpha=shares[kind.value],
    )
    return family_epsilon(claim.q, shift, claim.rounds, claim.delta)


def settings(styles: Sequence[str], counts: Sequence[int]) -> Iterator[Setting]:
    """Yield all rows of the table."""
    for style in styles:
        for canaries in counts:
            for q in (0.1, 0.5, 1.0):
                for coins in Coins:
                    for rounds in (1, 6):
                        yield Setting(style, canaries, q, rounds, coins)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--styles", default="nonce,ordinary")
    parser.add_argument("--canaries", default=",".join(map(str, BANKS)))
    parser.add_argument("--background", choices=[each.name.lower() for each in Background], default="controls")
    parser.add_argument("--json")
    given = parser.parse_args()
    rows = []
    print("style     canaries    q  T  evidence          false alarms (95% interval)      alpha  median / truth  full")
    for setting in settings(given.styles.split(","), tuple(map(int, given.canaries.split(",")))):
        start = time.perf_counter()
        for row in count_false_alarms(setting, given.runs, background=Background[given.background.upper()]):
            rows.append(row)
            setting_of = f"{row.style:8}  {row.canaries:8,} {row.q:4g} {row.rounds:2}  {row.evidence:16}"
            alarms = f"{row.false_alarms:4} of {row.runs:,} ({row.lower:.3f} to {row.upper:.3f})  {row.alpha:6g}"
            print(f"{setting_of}  {alarms}  {row.epsilon:6.3f} / {row.truth:.3f}  {row.full:4.0%}", flush=True)
        print(f"   {time.perf_counter() - start:.1f} s", file=sys.stderr)
    if given.json:
        Path(given.json).write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
