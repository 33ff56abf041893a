"""Conditional scores along a realised run, and why marginal ones will not do.

The adaptive example has one canary with one record and one probe on it. The second bank follows from the first release
alone: where the probe's noisy vote was high the probe stands alone (bank A), elsewhere a new candidate stands before it
and takes the canary's vote (bank B). All users' votes go elsewhere, so the probe's coordinate of both releases holds
everything, and its likelihoods can be written down.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import norm

from canarybank.attack import ATTACKS, Canary, Design, canary_contribution, design, follow
from canarybank.auditing import transcript_scores
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, epsilon
from canarybank.score import mixture
from canarybank.users import Auxiliary, Calibration, Users

MECHANISM = Mechanism(k=1, clip=0.1, sigma=0.8, q=0.3)
NOISE, CLIP, Q, DELTA = MECHANISM.noise, MECHANISM.clip, MECHANISM.q, MECHANISM.delta
CANARY = Canary(np.array([[1.0, 0.0, 0.0]]))
PROBE = 2
FIRST = Bank(np.array([[0.0, 1, 0], [0, 0, 1], [0, -1, 0]]), reserved=(PROBE,))
LATER = {
    "A": Bank(np.array([[0.0, 1, 0], [0, -1, 1], [1, 0, 0]]), reserved=(PROBE,)),
    "B": Bank(np.array([[1.0, 0, 0], [0, -1, 1], [1, 0, 0]]), reserved=(PROBE,)),
}
TAU = 0.5 * NOISE


def users() -> Auxiliary:
    return Auxiliary(Users.from_vectors([[[0.0, 1.0, 0.2]], [[0.0, 0.1, 1.0]]]))


def routed(bank: Bank) -> Routed[Auxiliary]:
    return Routed.build(users(), bank, MECHANISM.k)


def first_design() -> Design:
    return design(ATTACKS["exact"], CANARY, FIRST, routed(FIRST), MECHANISM, eligible=2, seed=0)


def followed(bank: Bank) -> Design:
    return follow(first_design(), bank, routed(bank), MECHANISM, eligible=2)


@dataclass
class Plane:
    """All pairs of the probe's two votes on a grid that has an edge at tau, and their true probabilities."""

    step: float = 0.02 * NOISE

    def __post_init__(self) -> None:
        axis = TAU + self.step * (np.arange(-420, 460) + 0.5)
        self.one, self.two = (side.ravel() for side in np.meshgrid(axis, axis, indexing="ij"))
        self.in_a = self.one > TAU
        canary_two = np.where(self.in_a, CLIP, 0.0)  # what a participating canary adds to the second release
        h0, noise = self.step**2, norm(scale=NOISE).pdf
        self.absent = h0 * noise(self.one) * noise(self.two)
        first = (1 - Q) * noise(self.one) + Q * noise(self.one - CLIP)
        second = (1 - Q) * noise(self.two) + Q * noise(self.two - canary_two)
        self.eligible = h0 * first * second

    def spent(self, scores: np.ndarray) -> float:
        """The largest log((TPR - delta) / FPR) of the rules "score > threshold"."""
        order = np.argsort(-scores, kind="stable")
        tpr, fpr = np.cumsum(self.eligible[order]), np.cumsum(self.absent[order])
        last = np.append(np.diff(scores[order]) != 0, True) & (tpr > 2 * DELTA)
        return float(np.log((tpr[last] - DELTA) / fpr[last]).max())

    def conditional(self) -> np.ndarray:
        first, releases = first_design(), (self.release(self.one), self.release(self.two))
        sums = {name: transcript_scores([first, followed(bank)], releases, Q)[-1] for name, bank in LATER.items()}
        return np.where(self.in_a, sums["A"], sums["B"])

    def marginal(self) -> np.ndarray:
        """Each release's own log-likelihood ratio, averaged over what the other one may have been."""
        chance = (1 - Q) * norm.sf(TAU / NOISE) + Q * norm.sf((TAU - CLIP) / NOISE)
        ratios = [np.exp(mixture(self.llr(votes), Q)) for votes in (self.one, self.two)]
        return np.log(ratios[0]) + np.log(chance * ratios[1] + (1 - chance))

    @staticmethod
    def llr(votes: np.ndarray) -> np.ndarray:
        return (votes * CLIP - CLIP**2 / 2) / NOISE**2

    @staticmethod
    def release(votes: np.ndarray) -> np.ndarray:
        full = np.zeros((len(votes), FIRST.size))
        full[:, PROBE] = votes
        return full


@pytest.fixture(scope="module")
def plane() -> Plane:
    return Plane()


def test_the_example_is_adaptive() -> None:
    assert followed(LATER["A"]).contribution == pytest.approx([CLIP])
    assert followed(LATER["B"]).contribution == pytest.approx([0.0])


def test_conditional_scores_sum_to_the_true_log_likelihood_ratio(plane: Plane) -> None:
    truth = np.log(plane.eligible / plane.absent)
    assert np.abs(plane.conditional() - truth).max() < 1e-4  # the covariance's ridge is 1e-9
    assert np.abs(plane.marginal() - truth).max() > 0.5


def test_marginal_scores_are_no_log_likelihood_ratio_at_all(plane: Plane) -> None:
    # Among transcripts whose log-likelihood ratio lies in a narrow band, the hypotheses' chances have that very ratio.
    for scores, holds in ((plane.conditional(), True), (plane.marginal(), False)):
        band = (scores > 2.0) & (scores < 2.1)
        ratio = np.log(plane.eligible[band].sum() / plane.absent[band].sum())
        assert bool(2.0 < ratio < 2.1) is holds


def test_conditional_scores_spend_all_that_can_be_spent_and_marginal_ones_less(plane: Plane) -> None:
    ratio = plane.eligible / plane.absent

    def excess(e: float) -> float:
        return float(np.maximum(plane.eligible - np.exp(e) * plane.absent, 0.0).sum())

    best = plane.spent(plane.conditional())
    assert best == pytest.approx(plane.spent(np.log(ratio)), abs=1e-4)
    assert excess(best) == pytest.approx(DELTA, rel=1e-3)
    assert best < epsilon(MECHANISM, 2)
    assert plane.spent(plane.marginal()) < best - 0.05


def test_on_its_own_bank_a_design_stays_itself() -> None:
    made = first_design()
    again = follow(made, made.bank, routed(FIRST), MECHANISM, eligible=2)
    assert np.array_equal(again.score.weights, made.score.weights)
    assert again.score.offset == made.score.offset
    assert np.array_equal(again.contribution, made.contribution)
    assert again.bank.hash == made.bank.hash


def test_moments_are_those_of_the_later_bank() -> None:
    # In the later bank the second auxiliary user's record lies nearest to the probe.
    near = Auxiliary(Users.from_vectors([[[0.0, 1.0, 0.2]], [[0.9, 0.0, 0.1]]]))
    later = follow(first_design(), LATER["A"], Routed.build(near, LATER["A"], 1), MECHANISM, eligible=10)
    share = 0.5 * CLIP
    assert later.score.moments.mean == pytest.approx([Q * 10 * share])
    spread = Q * (1 - Q) * 10 * 0.5 * CLIP**2 + NOISE**2
    assert later.score.moments.covariance[0, 0] == pytest.approx(spread, rel=1e-6)


def test_a_passive_attack_inspects_what_the_canary_votes_for_in_each_bank() -> None:
    plain = design(ATTACKS["ordinary"], CANARY, FIRST, routed(FIRST), MECHANISM, eligible=2, seed=0)
    bank = Bank(np.array([[0.0, 1, 0], [0.9, 0.1, 0], [0, 0, 1]]), reserved=(PROBE,))
    later = follow(plain, bank, routed(bank), MECHANISM, eligible=2)
    assert plain.inspected.tolist() == [0]
    assert later.inspected.tolist() == [1]
    assert later.contribution == pytest.approx([CLIP])
    assert canary_contribution(later.table, later.bank, MECHANISM)[later.inspected] == pytest.approx([CLIP])


def test_sums_run_over_the_rounds_of_one_transcript() -> None:
    designs = [first_design(), followed(LATER["A"])]
    releases = [Plane.release(np.array([0.05]))[0], Plane.release(np.array([-0.02]))[0]]
    sums = transcript_scores(designs, releases, Q)
    parts = [float(mixture(Plane.llr(np.array(v)), Q)) for v in (0.05, -0.02)]
    assert sums == pytest.approx(np.cumsum(parts), abs=1e-6)


def test_banks_without_the_probes_are_refused() -> None:
    made = first_design()
    with pytest.raises(InputError, match="does not reserve"):
        follow(made, replace(made.bank, reserved=(0,)), routed(FIRST), MECHANISM, eligible=2)
    with pytest.raises(InputError, match="other entries than the design's probes"):
        follow(made, FIRST, routed(FIRST), MECHANISM, eligible=2)
    wrong = Routed.build(Calibration(users().users), FIRST, 1)
    with pytest.raises(CohortError):
        follow(made, made.bank, wrong, MECHANISM, eligible=2)  # type: ignore[arg-type]
