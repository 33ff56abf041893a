"""What frozen attacks reach with defences on, and that audits with defences say the same."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canarybank.attack import ATTACKS, Canary, CanaryKind, Design, design, nonce_canary, nonce_pool, simulated_nonces
from canarybank.auditing import audit
from canarybank.config import resolve
from canarybank.defend import reach, reach_under_share
from canarybank.errors import ConfigError, InputError
from canarybank.flow import run_evolution
from canarybank.mechanism import Bank, Mechanism, Routed, epsilon, one_round_epsilon
from canarybank.score import LinearScore, Moments, RoundLaw, supremum
from canarybank.systems import BankSystem, ShareSystem
from canarybank.users import Auxiliary, Evaluation, Users

MECHANISM = Mechanism(k=2)


@dataclass(frozen=True)
class Scene:
    evaluation: Routed[Evaluation]
    auxiliary: Routed[Auxiliary]
    nonce: Design
    exact: Design


@pytest.fixture(scope="module")
def scene() -> Scene:
    rng = np.random.default_rng(0)
    bank = Bank(rng.normal(size=(80, 12))).reserve(12, 0)
    evaluation, auxiliary = (
        role(Users.from_vectors([rng.normal(size=(6, 12)) for _ in range(30)])) for role in (Evaluation, Auxiliary)
    )
    users = Users(tuple(f"a{i}" for i in range(30)), auxiliary.users.owners, vectors=auxiliary.users.vectors)
    routed = Routed.build(Auxiliary(users), bank, 2)
    nonces = simulated_nonces(bank.vectors, 1)
    real = Canary(rng.normal(size=(6, 12)).astype(np.float32), id="real", kind=CanaryKind.REAL)
    frozen = [
        design(ATTACKS[name], canary, bank, routed, MECHANISM, eligible=30, pool=pool, pool_size=40, seed=1)
        for name, canary, pool in (
            ("nonce-mueff", nonce_canary(6, nonces, 3), nonce_pool(nonces)),
            ("exact", real, None),
        )
    ]
    return Scene(Routed.build(evaluation, bank, 2), routed, *frozen)


def test_without_defences_it_is_the_exact_epsilon_of_the_attack(scene: Scene) -> None:
    for made in (scene.nonce, scene.exact):
        users = made.restrict(scene.evaluation.contributions(made.bank, MECHANISM))
        law = RoundLaw.of(made.score, users, made.contribution, MECHANISM)
        assert reach(made, scene.evaluation, MECHANISM) == supremum(law, MECHANISM.delta).interval
    assert reach(scene.nonce, scene.evaluation, MECHANISM).lower > 0.95 * epsilon(MECHANISM)


def test_a_cap_takes_what_its_closed_form_says_and_the_score_follows(scene: Scene) -> None:
    # A canary alone on quiet probes: the votes of its records, capped, have this norm, and the noise is the clip.
    capped = replace(MECHANISM, entry_cap=0.02)
    made = scene.nonce
    votes = np.bincount(made.table.swap(made.bank).ravel(), minlength=80) / 12
    norm = np.linalg.norm(np.minimum(votes, 0.02))
    assert norm < 0.1
    found = reach(made, scene.evaluation, capped, auxiliary=scene.auxiliary)
    assert found.upper <= one_round_epsilon(replace(MECHANISM, sigma=0.1 / norm)) + 1e-6
    assert found.lower > 0.9 * one_round_epsilon(replace(MECHANISM, sigma=0.1 / norm))
    background = scene.auxiliary.contributions(made.bank, capped)[:, made.inspected]
    own = np.minimum(votes, 0.02)[made.inspected]
    score = LinearScore(own, Moments.estimate(background, capped, 30))
    users = made.restrict(scene.evaluation.contributions(made.bank, capped))
    expected = supremum(RoundLaw.of(score, users, own, capped), 1e-5).interval
    assert found.lower == pytest.approx(expected.lower, abs=1e-6)


def test_barred_probes_reach_nothing(scene: Scene) -> None:
    some, every = scene.nonce.inspected[:6].tolist(), scene.nonce.inspected.tolist()
    whole, part = (reach(scene.nonce, scene.evaluation, MECHANISM, barred=each).upper for each in ((), some))
    assert part < whole
    for mechanism in (MECHANISM, replace(MECHANISM, share=0.5)):
        assert reach(scene.nonce, scene.evaluation, mechanism, barred=every).upper == 0.0


def test_a_share_takes_most_of_what_an_attack_reaches(scene: Scene) -> None:
    whole = reach(scene.nonce, scene.evaluation, MECHANISM).lower
    halves = [
        reach_under_share(
            scene.nonce, scene.evaluation, replace(MECHANISM, share=0.5), samples=1 << 13, sets=256, auxiliary=auxiliary
        )
        for auxiliary in (None, scene.auxiliary)
    ]
    for half in halves:
        assert half.interval.upper < 0.8 * whole
        assert half.interval.lower > 0.2
    natural = reach_under_share(
        scene.exact, scene.evaluation, replace(MECHANISM, share=0.5), samples=1 << 13, sets=256, seed=1
    )
    assert natural.interval.upper < 0.5


def test_releases_of_a_share_have_the_drawn_votes_in_them(scene: Scene) -> None:
    # Without noise and with sure coins a release is the sum of drawn votes; copies vote with sets of their own.
    sure = replace(MECHANISM, share=0.5, q=1.0, sigma=1e-9)
    rows = [0, 0, 4]
    system = ShareSystem.of(scene.exact, scene.evaluation.cohort.users, rows, sure)
    rng = np.random.default_rng(0)
    absent, present = (system.release(eligible, 3000, rng) for eligible in (False, True))
    alone, own = [system.users.draw(user, 3000, rng) for user in rows], system.canary.draw(0, 3000, rng)

    def is_near(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
        """Compare sums of means, within five deviations of them."""
        apart = sum(each.mean(axis=0) for each in found) - sum(each.mean(axis=0) for each in expected)
        spread = np.sqrt(sum(each.var(axis=0) for each in (*found, *expected)) / 3000)
        return bool((np.abs(apart) <= 5 * spread + 1e-9).all())

    assert is_near([absent], alone)
    assert is_near([present], [*alone, own])
    assert not is_near([present], alone)
    assert not hasattr(system, "law")
    with pytest.raises(InputError, match="this system has fixed ones"):
        BankSystem(scene.exact.restrict(scene.evaluation.contributions(scene.exact.bank, sure)), own[0], sure)


@pytest.fixture(scope="module")
def people() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=(6, 12)) for _ in range(90)]


def audited(people: list[np.ndarray], mechanism: Mechanism, **more: object):
    bank = np.random.default_rng(2).normal(size=(80, 12))
    return audit(people, bank, mechanism, "nonce", trials=4000, canaries=1, probes=12, pool_size=40, **more)  # type: ignore[arg-type]


def test_an_audit_of_a_share_has_trials_alone_and_says_so(people: list[np.ndarray]) -> None:
    found = audited(people, replace(MECHANISM, share=0.5, q=0.5)).only
    assert found.ladder.attack is None
    assert found.ladder.rule is None
    assert found.ladder.mechanism.epsilon == pytest.approx(epsilon(replace(MECHANISM, q=0.5)))
    assert any("best known filters" in note for note in found.notes)
    assert found.canaries[0].counts.n1 == 4000
    assert 0 < found.headline.epsilon < found.ladder.mechanism.epsilon
    with pytest.raises(InputError, match="without secret shares"):
        audited(people, replace(MECHANISM, share=0.5), method="stratified")
    with pytest.raises(InputError, match="our own mechanism alone"):
        audited(people, replace(MECHANISM, share=0.5), system=partial(BankSystem))


def test_an_audit_of_a_cap_is_exact_as_ever(people: list[np.ndarray]) -> None:
    whole, capped = (audited(people, replace(MECHANISM, entry_cap=cap)).only for cap in (None, 0.01))
    assert whole.ladder.attack is not None
    assert capped.ladder.attack is not None
    assert capped.ladder.attack.epsilon < whole.ladder.attack.epsilon
    assert capped.ladder.mechanism.epsilon == whole.ladder.mechanism.epsilon


def test_one_run_refuses_a_share(audited: dict[str, Any], answering: Any, tmp_path: Path) -> None:
    flags = audited | {"evolve.audit": "", "evolve.audit_one_run": True, "one_run.share": 0.5, "mechanism.share": 0.5}
    with answering(), pytest.raises(ConfigError, match="must contribute what the auditor knows"):
        run_evolution(resolve(flags=flags), tmp_path / "run")
