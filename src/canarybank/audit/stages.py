"""Walk one canary through an audit: freeze the rule, play the trials, judge it.

Each stage sees only the cohort it may: a design has seen the auxiliary users (``attack.design``), ``freeze`` sees the
calibration users, and only then do ``evaluation_law`` and the trials see the evaluation users.
"""

from dataclasses import dataclass

from scipy.sparse import csr_array

from canarybank.attack import Design
from canarybank.audit.exact import at_most, epsilon_at, supremum
from canarybank.audit.result import CanaryResult
from canarybank.audit.settings import Settings, TrialEngine, canary_bound
from canarybank.audit.system import BankSystem
from canarybank.audit.threshold import Threshold, ThresholdMode, analytic, calibrated, stand_in
from canarybank.audit.trials import Counts, Literal, Projected
from canarybank.engine import Engine
from canarybank.errors import CohortError
from canarybank.mechanism import Bank, Mechanism, Routed, one_round_epsilon
from canarybank.progress import SILENT, Progress
from canarybank.score import Interval, RoundLaw
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation

__all__ = ["Frozen", "Prepared", "evaluation_law", "evaluation_trials", "freeze", "judge", "prepare"]

Address = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The cohorts, routed once over the base of a bank whose probe positions are reserved."""

    bank: Bank
    mechanism: Mechanism
    auxiliary: Routed[Auxiliary]
    calibration: Routed[Calibration]
    evaluation: Routed[Evaluation]

    @property
    def eligible(self) -> int:
        """Return N, the number of eligible users other than the canary."""
        return len(self.evaluation)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A designed attack with its threshold: everything that a commitment fixes for one canary."""

    design: Design
    threshold: Threshold


def prepare(cohorts: Cohorts, bank: Bank, mechanism: Mechanism) -> Prepared:
    """Route every cohort over the base of a bank, once for all attacks and canaries."""
    return Prepared(
        bank=bank,
        mechanism=mechanism,
        auxiliary=Routed.build(cohorts.auxiliary, bank, mechanism.k),
        calibration=Routed.build(cohorts.calibration, bank, mechanism.k),
        evaluation=Routed.build(cohorts.evaluation, bank, mechanism.k),
    )


def freeze(
    design: Design,
    calibration: Routed[Calibration],
    mechanism: Mechanism,
    settings: Settings,
    *,
    eligible: int,
    canaries: int,
    address: Address = (),
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> Frozen:
    """Fix the threshold of a designed attack on the calibration cohort, which stands for ``eligible`` users."""
    users = design.restrict(stand_in(calibration, design.bank, mechanism, eligible=eligible, seed=settings.seed))
    aim = settings.target(mechanism, canaries)
    if settings.threshold is ThresholdMode.ANALYTIC:
        return Frozen(design, analytic(RoundLaw.of(design.score, users, design.contribution, mechanism), aim))
    threshold = calibrated(
        _trials(design, users, mechanism, settings.engine),
        aim,
        number=settings.trials,
        seed=settings.seed,
        path=address,
        engine=engine,
        progress=progress,
    )
    return Frozen(design, threshold)


def evaluation_law(design: Design, evaluation: Routed[Evaluation], mechanism: Mechanism) -> RoundLaw:
    """Return the exact law of a design's score on the evaluation cohort."""
    return RoundLaw.of(design.score, _evaluated(design, evaluation, mechanism), design.contribution, mechanism)


def evaluation_trials(
    design: Design, evaluation: Routed[Evaluation], mechanism: Mechanism, settings: Settings
) -> Literal | Projected:
    """Return the source of a design's trials on the evaluation cohort, by the declared engine and method."""
    trials = _trials(design, _evaluated(design, evaluation, mechanism), mechanism, settings.engine)
    return trials.included() if settings.method.included else trials


def judge(
    frozen: Frozen, law: RoundLaw, counts: Counts, mechanism: Mechanism, settings: Settings, *, canaries: int
) -> CanaryResult:
    """Bound epsilon from a canary's counts at its share of alpha, and set the exact figures beside it."""
    design, threshold, exact = frozen.design, frozen.threshold, one_round_epsilon(mechanism)
    return CanaryResult(
        canary=design.canary.id,
        bank_hash=design.bank.hash,
        inspected=tuple(int(position) for position in design.inspected),
        selected=design.selected,
        mu_eff=design.mu_eff,
        probe_norm=float((design.contribution**2).sum() ** 0.5),
        threshold=threshold,
        counts=counts,
        bound=canary_bound(counts, mechanism, settings, canaries),
        supremum=at_most(supremum(law, mechanism.delta).interval, exact),
        rule=at_most(epsilon_at(law, threshold.value, mechanism.delta), exact),
        absent_rate=_interval(law.absent(threshold.value)),
        eligible_rate=_interval(law.eligible(threshold.value)),
    )


def _evaluated(design: Design, evaluation: Routed[Evaluation], mechanism: Mechanism) -> csr_array:
    if not isinstance(evaluation.cohort, Evaluation):
        raise CohortError(f"Rules are judged on the evaluation cohort, not on {type(evaluation.cohort).__name__}.")
    return design.restrict(evaluation.contributions(design.bank, mechanism))


def _trials(design: Design, users: csr_array, mechanism: Mechanism, engine: TrialEngine) -> Literal | Projected:
    if engine is TrialEngine.LITERAL:
        return Literal(BankSystem(users, design.contribution, mechanism), design.score)
    return Projected(RoundLaw.of(design.score, users, design.contribution, mechanism))


def _interval(ends: tuple[object, object]) -> Interval:
    lower, upper = ends
    return Interval(float(lower), float(upper))  # type: ignore[arg-type]
