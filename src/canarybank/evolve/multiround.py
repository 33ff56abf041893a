"""Audit a run of Private Evolution round by round, on the banks that it realised."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from scipy.sparse import csr_array

from canarybank.attack import Design
from canarybank.audit import (
    AlphaLedger,
    BankSystem,
    Literal,
    Settings,
    ThresholdMode,
    TrialEngine,
)
from canarybank.audit.threshold import stand_in
from canarybank.engine import Engine
from canarybank.errors import CohortError, IncompleteError, InputError
from canarybank.evolve.prefixes import STEP, Claims, Prefix, Rule, freeze_prefixes, judge_prefixes
from canarybank.evolve.result import Evolution
from canarybank.evolve.summed_trials import SummedTrials
from canarybank.evolve.transcript import follow, transcript_scores
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.progress import SILENT, Progress
from canarybank.score import RoundLaw
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation

__all__ = ["CONDITIONAL", "DEFAULTS", "FrozenRounds", "MultiRound", "evolve_audit", "freeze_rounds", "judge_rounds"]

Part = TypeVar("Part")

CONDITIONAL: Final = (
    "The claim is conditional on the banks that this run realised: a trial makes one independent release over each of "
    "these banks, held fixed, and does not evolve. Each round's score is built on the bank that the run's own releases "
    "before it led to. So the claim does not cover what a user's presence does to later banks; another run would have "
    "other banks and figures."
)
DEFAULTS: Final = Settings(trials=5_000_000, alpha=0.01, threshold=ThresholdMode.ANALYTIC)
"""The paper's trials and each canary's share of its alpha, with thresholds from exact rates."""


@dataclass(frozen=True, slots=True)
class FrozenRounds:
    """What a commitment fixes: each round's design given its realised bank, and each prefix's rule.

    No evaluation user had a part in any of it beyond the releases of the run itself.
    """

    designs: tuple[Design, ...]
    rules: tuple[Rule, ...]
    mechanism: Mechanism
    eligible: int
    claims: Claims
    ledgers: tuple[AlphaLedger, ...]


@dataclass(frozen=True, slots=True)
class MultiRound:
    """What one canary's attack showed over the rounds of one run, for every prefix of them."""

    attack: str
    canary: str
    mechanism: Mechanism
    eligible: int
    trials: int
    seed: int
    banks: tuple[str, ...]
    """The content hash of each round's bank, probes in it."""
    mu_eff: tuple[float, ...]
    """The canary's separation in each round, in standard deviations of that round's score."""
    run_scores: tuple[float, ...]
    """The summed score of the run's own releases after each round, which the thresholds are for."""
    prefixes: tuple[Prefix, ...]
    claims: Claims
    ledgers: tuple[AlphaLedger, ...]
    insecure_seed: int | None
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.prefixes, *self.notes)))

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain values."""
        return asdict(self)


def evolve_audit(
    evolution: Evolution | Path | str,
    design: Design,
    cohorts: Cohorts,
    *,
    settings: Settings = DEFAULTS,
    claims: Claims = Claims.EACH,
    canaries: int = 1,
    step: float = STEP,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> MultiRound:
    """Audit a run, or the one in a folder, that started from a design's bank and kept its probes in every round.

    In a simulated audit the run is ``evolve(cohorts.evaluation.users, design.bank, ..., insecure_seed=1)``, the users'
    records capped beforehand: then the evaluation cohort is the very population of the run. ``step`` is that of
    ``judge_prefixes``.
    """
    run = evolution if isinstance(evolution, Evolution) else Evolution.load(evolution)
    frozen = freeze_rounds(
        run, design, cohorts, settings=settings, claims=claims, canaries=canaries, engine=engine, progress=progress
    )
    return judge_rounds(run, frozen, cohorts.evaluation, settings=settings, step=step, engine=engine, progress=progress)


def freeze_rounds(
    run: Evolution,
    design: Design,
    cohorts: Cohorts,
    *,
    settings: Settings = DEFAULTS,
    claims: Claims = Claims.EACH,
    canaries: int = 1,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> FrozenRounds:
    """Freeze scores and thresholds of all rounds: from the auxiliary and the calibration cohort, given the banks.

    Of the evaluation cohort only its size is read.
    """
    _require_fitting(run, design, cohorts)
    mechanism, eligible = run.mechanism, len(cohorts.evaluation)
    designs = _per_round(
        run, "scores", lambda bank, _: _followed(design, bank, cohorts.auxiliary, mechanism, eligible), progress
    )
    users = _per_round(
        run,
        "calibration users",
        lambda bank, t: _stand_ins(designs[t], bank, cohorts.calibration, mechanism, eligible, settings.seed),
        progress,
    )
    laws, trials = _sources(designs, users, mechanism, settings.engine)
    rules = freeze_prefixes(
        laws,
        mechanism,
        settings,
        claims=claims,
        canaries=canaries,
        trials=trials,
        path=_path(design),
        engine=engine,
        progress=progress,
    )
    ledgers = claims.ledgers(settings.alpha / canaries, len(rules))
    return FrozenRounds(designs, rules, mechanism, eligible, claims, ledgers)


def judge_rounds(
    run: Evolution,
    frozen: FrozenRounds,
    evaluation: Evaluation,
    *,
    settings: Settings = DEFAULTS,
    step: float = STEP,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> MultiRound:
    """Evaluate what was frozen: play the trials over every round's bank, and compute the exact figures."""
    if not isinstance(evaluation, Evaluation):
        raise CohortError(f"Rules are judged on the evaluation cohort, not on {type(evaluation).__name__}.")
    mechanism, designs = frozen.mechanism, frozen.designs
    if [each.bank.hash for each in designs] != [each.bank.hash for each in run.rounds]:
        raise InputError("What was frozen is about other banks than this run's; freeze the rounds of this run.")
    users = _per_round(
        run,
        "evaluation users",
        lambda bank, t: designs[t].restrict(Routed.build(evaluation, bank, mechanism.k).contributions(bank, mechanism)),
        progress,
    )
    laws, trials = _sources(designs, users, mechanism, settings.engine)
    prefixes = judge_prefixes(
        frozen.rules,
        laws,
        mechanism,
        settings,
        trials=trials,
        step=step,
        path=_path(designs[0]),
        engine=engine,
        progress=progress,
    )
    scores = transcript_scores(designs, [each.release for each in run.rounds], mechanism.q)
    return MultiRound(
        attack=designs[0].attack.name,
        canary=designs[0].canary.id,
        mechanism=mechanism,
        eligible=frozen.eligible,
        trials=settings.trials,
        seed=settings.seed,
        banks=tuple(each.bank.hash for each in designs),
        mu_eff=tuple(each.mu_eff for each in designs),
        run_scores=tuple(float(score) for score in scores),
        prefixes=prefixes,
        claims=frozen.claims,
        ledgers=frozen.ledgers,
        insecure_seed=run.insecure_seed,
        notes=(CONDITIONAL, frozen.claims.statement, _about(run)),
    )


def _require_fitting(run: Evolution, design: Design, cohorts: Cohorts) -> None:
    if not run.rounds:
        raise IncompleteError("This run has made no release yet, so there is nothing to audit; resume it first.")
    if run.rounds[0].bank.hash != design.bank.hash:
        raise InputError(
            f"The run started from {run.rounds[0].bank!r}, and the attack was designed on {design.bank!r}; audit a run "
            "that starts from the design's own bank."
        )
    for cohort in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation):
        if design.canary.id in cohort.users.ids:
            raise CohortError(
                f"The canary {design.canary.id!r} is also in the cohort {type(cohort).__name__}; a canary is in none."
            )


def _per_round(run: Evolution, what: str, work: Callable[[Bank, int], Part], progress: Progress) -> tuple[Part, ...]:
    """Do one piece of work for the bank of every round, one bank's route table in memory at a time."""
    parts = []
    with progress.stage(what, total=len(run.rounds), unit="rounds") as stage:
        for t, each in enumerate(run.rounds):
            parts.append(work(each.bank, t))
            stage.advance()
    return tuple(parts)


def _followed(design: Design, bank: Bank, auxiliary: Auxiliary, mechanism: Mechanism, eligible: int) -> Design:
    return follow(design, bank, Routed.build(auxiliary, bank, mechanism.k), mechanism, eligible=eligible)


def _stand_ins(
    design: Design, bank: Bank, calibration: Calibration, mechanism: Mechanism, eligible: int, seed: int
) -> csr_array:
    routed = Routed.build(calibration, bank, mechanism.k)
    return design.restrict(stand_in(routed, bank, mechanism, eligible=eligible, seed=seed))


def _sources(
    designs: Iterable[Design], users: Iterable[csr_array], mechanism: Mechanism, engine: TrialEngine
) -> tuple[list[RoundLaw], SummedTrials]:
    """Return the laws of the rounds' scores over these users, and the trials that follow them."""
    pairs = list(zip(designs, users, strict=True))
    laws = [RoundLaw.of(each.score, table, each.contribution, mechanism) for each, table in pairs]
    if engine is TrialEngine.PROJECTED:
        return laws, SummedTrials.of(laws)
    systems = [Literal(BankSystem(table, each.contribution, mechanism), each.score) for each, table in pairs]
    return laws, SummedTrials(systems, mechanism.q)


def _path(design: Design) -> tuple[str | int, ...]:
    return ("multiround", design.attack.name, design.canary.id)


def _about(run: Evolution) -> str:
    drawn = (
        "The run drew its releases from the operating system's entropy"
        if run.insecure_seed is None
        else f"The run is a simulation, its releases seeded with {run.insecure_seed}"
    )
    return (
        f"{drawn}. Exact figures and counts are computed from evaluation users' records: they are not differentially "
        "private."
    )
