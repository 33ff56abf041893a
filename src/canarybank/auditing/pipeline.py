"""Audit: design -> commit -> play -> judge, over T >= 1 rounds of any system.

A case is one attack on one canary. Designing and freezing see the auxiliary and the calibration users; once every rule
is frozen it can be committed to; only then are trials played, and only judging sees the evaluation users' law. Callers
differ in their ports: which systems release (``Systems``), where stages are remembered (``Memo``), where counts are
kept (``Tally``), and where work runs (``Engine``).

One round is scored by its llr. Several rounds are scored by the sum of their mixture scores, and every prefix of them
has a rule of its own.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.attack import Attack, Canary, CanaryKind, Design, Pool, PoolSource, design
from canarybank.auditing.forecast import expected_bound
from canarybank.auditing.methods import Bound
from canarybank.auditing.ports import Case, Claims, Memo, Place, Routes, Systems, Tally, restricted_tables
from canarybank.auditing.rates import IMPOSSIBLE, Law, at_most, chance_between, epsilon_at, supremum
from canarybank.auditing.result import AttackResult, CanaryResult, Ladder, Rung
from canarybank.auditing.settings import (
    AlphaLedger,
    Settings,
    Threshold,
    ThresholdMode,
    TrialEngine,
    analytic,
    calibrated,
    canary_bound,
    choose_aim,
    headline,
    pooled_bound,
    stand_in_rows,
)
from canarybank.auditing.sources import Literal, Projected, Summed, Tail, Trials
from canarybank.auditing.trials import Shard, count_shard, plan
from canarybank.engine import Engine, Threads
from canarybank.errors import CohortError, IncompleteError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable, StreamedCohort, epsilon
from canarybank.progress import SILENT, Progress
from canarybank.score import Interval, LinearScore, Moments, RoundLaw, SummedLaw
from canarybank.store import hash_array, stage_key
from canarybank.systems.mechanism import BankSystem, ReleaseSystem, SystemFactory
from canarybank.systems.share import ShareSystem
from canarybank.systems.torch_mechanism import TorchSystem
from canarybank.users import Evaluation

__all__ = ["Auditor", "cases_by_attack", "claim_names"]

CONTRADICTED = (
    "The system does not release as its law states: its counts cannot come from it. So nothing is computed exactly; "
    "do not rely on that law."
)
SHARED = (
    "Users vote within secret shares, so no law of the score is known and nothing is computed exactly: the bound comes "
    "from trials, by a linear filter. What the best known filters reach is computed by canarybank.defend.reach; "
    "docs/defences.md has the figures."
)


@dataclass(frozen=True)
class Auditor:
    """What an audit is declared with, and its ports.

    ``eligible`` is N, the number of eligible users other than the canary. ``claims`` says how alpha covers prefixes.
    """

    mechanism: Mechanism
    settings: Settings
    eligible: int
    system: SystemFactory = BankSystem
    claims: Claims = Claims.EACH
    memo: Memo | None = None
    engine: Engine = field(default_factory=Threads)
    progress: Progress = SILENT
    step: float = 1.25e-5
    """The width of the cells behind certified intervals over several rounds: they narrow, and take longer, with it."""

    def design(
        self,
        attack: Attack,
        canary: Canary,
        pool: Pool | PoolSource | None,
        routes: Routes,
        seed: int,
        *,
        pool_size: int = 512,
        probes: int | None = None,
    ) -> Design:
        """Freeze an attack's probes and score on a canary, from public things and the auxiliary users alone.

        It is remembered where the pool is given, and not the source of one.
        """
        table, bank = routes.canary(canary, self.mechanism.k), routes.bank
        mechanism = self.mechanism.whole_bank
        make = partial(
            design,
            attack,
            canary,
            bank,
            routes.auxiliary,
            mechanism,
            eligible=self.eligible,
            pool=pool,
            pool_size=pool_size,
            probes=probes,
            table=table,
            seed=seed,
        )
        if self.memo is None or not (pool is None or isinstance(pool, Pool)):
            return make()
        plugin = attack.pin_selection()
        key = stage_key(
            "design",
            ties="by position",
            attack=[attack.canary, attack.pool, attack.selection, *([] if plugin is None else [str(plugin)])],
            canary=[canary.id, hash_array(canary.vectors)],
            pool=None if pool is None else [hash_array(pool.vectors), pool.sources, pool.texts],
            bank=bank.hash,
            probes=probes,
            auxiliary=routes.auxiliary.hash,
            mechanism=mechanism.to_json(),
            eligible=self.eligible,
            seed=seed,
        )

        def arrays() -> Mapping[str, NDArray[Any]]:
            one = make()
            return {
                "selected": np.array(one.selected, dtype=np.int64),
                "inspected": one.inspected,
                "contribution": one.contribution,
                "mean": one.score.moments.mean,
                "covariance": one.score.moments.covariance,
            }

        return _restored(self.memo.arrays("design", key, arrays), attack, canary, table, bank, pool)

    def calibration(self, routes: Sequence[Routes], cases: Sequence[Case] = ()) -> Systems:
        """Return the systems on which thresholds are frozen: the calibration users stand for the eligible ones.

        Where users are streamed, the first of ``cases`` that is asked for costs a pass that serves all of them.
        """
        cohorts = [over.calibration for over in routes]
        tables = restricted_tables(cohorts, cases, self.mechanism)

        def systems(case: Case) -> Sequence[ReleaseSystem]:
            rows = [stand_in_rows(cohort, self.eligible, self.settings.seed) for cohort in cohorts]
            if self.mechanism.share < 1:
                return self._shared_systems(case, cohorts, rows)
            return self._systems(case, [table[own] for table, own in zip(tables(case), rows, strict=True)])

        return systems

    def evaluation(self, routes: Sequence[Routes], cases: Sequence[Case] = ()) -> Systems:
        """Return the systems that are judged: over the evaluation users.

        Where users are streamed, the first of ``cases`` that is asked for costs a pass that serves all of them.
        """
        cohorts = [over.evaluation for over in routes]
        for cohort in cohorts:
            if cohort.role is not Evaluation:
                raise CohortError(f"Rules are judged on the evaluation cohort, not on {cohort.role.__name__}.")
        tables = restricted_tables(cohorts, cases, self.mechanism)

        @cache
        def systems(case: Case) -> Sequence[ReleaseSystem]:
            if not case.thresholds:
                raise CohortError(f"{case.attack.name} canary {case.index} has no frozen rule yet; freeze it first.")
            if any(cohort.has(case.canary) for cohort in cohorts):
                raise CohortError(f"The canary {case.canary!r} is also an evaluation user; a canary is in no cohort.")
            if self.mechanism.share < 1:
                return self._shared_systems(case, cohorts, [np.arange(len(cohort)) for cohort in cohorts])
            return self._systems(case, tables(case))

        return systems

    def _systems(self, case: Case, tables: Sequence[csr_array]) -> Sequence[ReleaseSystem]:
        return [
            self.system(table, each.contribution, self.mechanism)
            for each, table in zip(case.designs, tables, strict=True)
        ]

    def _shared_systems(
        self,
        case: Case,
        cohorts: Sequence[Routed[Any] | StreamedCohort[Any]],
        rows: Sequence[NDArray[np.int64]],
    ) -> Sequence[ReleaseSystem]:
        """Return the systems of a mechanism with secret shares, over these rows of each round's cohort."""
        if self.system is not BankSystem:
            raise InputError(
                f"mechanism.share is {self.mechanism.share:g}, and secret shares are drawn by our own mechanism alone; "
                "leave out audit.system, or set mechanism.share to 1."
            )
        held = [cohort for cohort in cohorts if isinstance(cohort, Routed)]
        if len(held) < len(cohorts):
            raise InputError("Secret shares are drawn from users in memory, and these are in shards.")
        return [
            ShareSystem.of(each, routed.cohort.users, chosen, self.mechanism)
            for each, routed, chosen in zip(case.designs, held, rows, strict=True)
        ]

    def freeze(self, cases: Sequence[Case], systems: Systems, *, calibration: str = "") -> tuple[Case, ...]:
        """Return the cases with their thresholds, one for each prefix of rounds; every rule is then frozen.

        ``calibration`` names the users that the systems are made of, for the memo.
        """
        shared = self.mechanism.share < 1
        if self.settings.method.included and (
            shared or self.system is not BankSystem or any(case.summed for case in cases)
        ):
            raise InputError(
                f"The method {self.settings.method.name!r} counts trials in which the canary surely takes part, and "
                "only one round of our own system, without secret shares, has them; choose another method, such as "
                "'paper'."
            )
        frozen: list[Case] = []
        with self.progress.stage("thresholds", total=sum(len(case.scores) for case in cases), unit="rules") as stage:
            for group in cases_by_attack(cases):
                candidates = []
                for case in group:
                    candidates.append(self._thresholds(case, systems, len(group), calibration))
                    stage.advance(len(case.scores), note=f"{case.attack.name} canary {case.index}")
                # All canaries of an attack aim at the same branch: of each prefix, the one that promises most together.
                chosen = [choose_aim(prefix) for prefix in zip(*candidates, strict=True)]
                frozen += [
                    replace(case, thresholds=tuple(prefix[place] for prefix in chosen))
                    for place, case in enumerate(group)
                ]
        return tuple(frozen)

    def _thresholds(self, case: Case, systems: Systems, canaries: int, calibration: str) -> list[list[Threshold]]:
        """Return, for each prefix of rounds, the threshold under each aim of the method."""
        named = self.system if hasattr(self.system, "__qualname__") else type(self.system)
        key = stage_key(
            "threshold",
            scores=[[hash_array(score.weights), float(score.offset)] for score in case.scores],
            designs=[[each.bank.hash, each.inspected.tolist(), hash_array(each.contribution)] for each in case.designs],
            calibration=calibration,
            system=f"{named.__module__}:{named.__qualname__}",
            mechanism=self.mechanism.to_json(),
            eligible=self.eligible,
            settings=asdict(self.settings),
            canaries=canaries,
            claims=self.claims,
            address=list(case.address),
            summed=case.summed,
        )

        def make() -> list[list[dict[str, Any]]]:
            made = systems(case)
            return [
                [asdict(each) for each in self._aimed(case, made, canaries, rounds)]
                for rounds in range(1, len(case.scores) + 1)
            ]

        kept = make() if self.memo is None or not calibration else self.memo.document("threshold", key, make)
        return [
            [Threshold(each["value"], ThresholdMode(each["mode"]), each["expected"]) for each in prefix]
            for prefix in kept
        ]

    def _aimed(self, case: Case, systems: Sequence[ReleaseSystem], canaries: int, rounds: int) -> list[Threshold]:
        """Return the threshold of so many rounds under each aim of the method."""
        target, aims = self._declared(len(case.scores)).target(self.mechanism, canaries), self.settings.method.aims
        analytically = self.settings.threshold is ThresholdMode.ANALYTIC and all(type(s) is BankSystem for s in systems)
        if analytically and (law := self.law(case, systems, rounds)) is not None:
            return [analytic(law, target, aim) for aim in aims]
        prefix = "round 1" if rounds == 1 else f"rounds 1 to {rounds}"
        draw_and_aim = partial(
            calibrated,
            self._source(case, systems[:rounds]),
            target,
            number=self.settings.trials,
            seed=self.settings.seed,
            path=(*case.address, prefix) if case.summed else case.address,
            engine=self.engine,
            progress=SILENT if case.summed else self.progress,
        )
        return [draw_and_aim(branch=aim) for aim in aims]

    def play(self, cases: Sequence[Case], systems: Systems, tally: Tally) -> None:
        """Play every shard that the tally lacks; show rates, for there is no bound before all trials are in."""
        settings, shards = self.settings, plan(self.settings.trials)
        left = [(case, shard) for case in cases for shard in shards if (case.place, shard) not in tally.done]
        unfinished = list(dict.fromkeys(case for case, _ in left))
        # What every shard of a case needs is bound to the function, which an engine sends once; tasks are small.
        counters = [
            partial(
                count_shard,
                self._source(case, systems(case), counted=True),
                tuple(threshold.value for threshold in case.thresholds),
                settings.seed,
                (*case.address, "evaluation"),
            )
            for case in unfinished
        ]
        numbers = {case: number for number, case in enumerate(unfinished)}
        tasks = [(numbers[case], shard) for case, shard in left]
        # What an earlier run played is no part of the stage: it would count as the work of a moment in rate and time.
        with self.progress.stage("trials", total=sum(shard.size for _, shard in left), unit="trials") as stage:
            for index, positives in self.engine.run(partial(_count_with, counters), tasks):
                case, shard = left[index]
                tally.put(case.place, shard, positives)
                stage.advance(shard.size, note=_rates(tally, case))

    def judge(
        self,
        cases: Sequence[Case],
        systems: Systems,
        tally: Tally,
        *,
        accounted: Callable[[int], tuple[float, str] | None] = lambda _: None,
        run_scores: Mapping[Place, NDArray[np.float64]] | None = None,
        evidence: Callable[[Case, RoundLaw], dict[str, Any]] | None = None,
        notes: Callable[[Case], tuple[str, ...]] = lambda _: (),
    ) -> tuple[AttackResult, ...]:
        """Turn counts into claims and set the exact figures beside them: a result for each attack and prefix of rounds.

        ``accounted`` gives what an accountant states for so many releases, and which one it is; ``evidence`` makes the
        data of figures from the canary that is shown.
        """
        found: list[AttackResult] = []
        with self.progress.stage("judging", total=len(cases), unit="canaries") as stage:
            for group in cases_by_attack(cases):
                attack, made = group[0].attack, [systems(case) for case in group]
                for rounds in range(1, len(group[0].scores) + 1):
                    laws = [self.law(case, over, rounds) for case, over in zip(group, made, strict=True)]
                    said = (*notes(group[0]), *([SHARED] if self.mechanism.share < 1 else []))
                    if any(self._is_contradicted(*each, tally, rounds) for each in zip(group, made, laws, strict=True)):
                        laws, said = [None] * len(group), (*said, CONTRADICTED)
                    judged = [
                        self._judged(*each, tally, len(group), rounds, run_scores or {})
                        for each in zip(group, made, laws, strict=True)
                    ]
                    ranks = [
                        (each.bound.epsilon, 0.0 if each.supremum is None else each.supremum.lower)
                        for each, _ in judged
                    ]
                    best = ranks.index(max(ranks))
                    law, is_last = laws[best], rounds == len(group[0].scores)
                    shown = evidence(group[best], law) if evidence and is_last and isinstance(law, RoundLaw) else {}
                    found.append(
                        AttackResult(
                            **self._claimed(attack.name, judged, rounds, len(group[0].scores), accounted(rounds)),
                            attack=attack.name,
                            description=attack.description,
                            headline_canary=best,
                            canaries=tuple(canary for canary, _ in judged),
                            rounds=rounds,
                            plants=attack.active,
                            on_people=attack.canary is CanaryKind.REAL,
                            notes=said,
                            evidence=shown,
                        )
                    )
                stage.advance(len(group))
        return tuple(found)

    def _declared(self, rounds: int) -> Settings:
        """Return the settings of one prefix: all of alpha, or an even share of it where claims are made together."""
        each = self.claims is Claims.EACH
        return self.settings if each else replace(self.settings, alpha=self.settings.alpha / rounds)

    def _source(self, case: Case, systems: Sequence[ReleaseSystem], *, counted: bool = False) -> Trials:
        """Return where a case's scores come from; those that are counted are the kind that the method needs."""
        rounds: list[Trials] = []
        engine = self.settings.engine
        for system, score in zip(systems, case.scores, strict=False):
            # Only our own system is its law. Another one is played as it releases, whatever law it states.
            law, played = None, system
            if type(system) is BankSystem:
                law = _law_of(system, score) if engine in {TrialEngine.TAIL, TrialEngine.PROJECTED} else None
                played = TorchSystem.of(system) if engine is TrialEngine.LITERAL_TORCH else system
            source: Literal | Projected | Tail
            if law is None:
                source = Literal(played, score)
            else:  # a sum over rounds needs the score of every trial
                source = Tail(law) if engine is TrialEngine.TAIL and not case.summed else Projected(law)
            rounds.append(source.included() if counted and self.settings.method.included else source)
        return Summed(rounds, self.mechanism.q) if case.summed else rounds[0]

    def law(self, case: Case, systems: Sequence[ReleaseSystem], rounds: int = 1) -> Law | None:
        """Return the exact law of a case's score over so many rounds, where the systems have one."""
        pairs = zip(systems[:rounds], case.scores, strict=False)
        laws = [law for system, score in pairs if (law := _law_of(system, score)) is not None]
        if len(laws) < rounds:
            return None
        return SummedLaw(laws, self.step) if case.summed else laws[0]

    def _is_contradicted(
        self, case: Case, systems: Sequence[ReleaseSystem], law: Law | None, tally: Tally, rounds: int
    ) -> bool:
        """Say whether a system that is not our own releases otherwise than the law that it states."""
        if law is None or all(type(each) is BankSystem for each in systems):
            return False
        counts, rates = tally.counts(case.place, rounds), law.rates(case.thresholds[rounds - 1].value)
        pairs = ((counts.tp, counts.n1, rates.tpr), (counts.fp, counts.n0, rates.fpr))
        return any(
            chance_between(seen, trials, float(ends.lower), float(ends.upper)) < IMPOSSIBLE
            for seen, trials, ends in pairs
        )

    def _judged(
        self,
        case: Case,
        systems: Sequence[ReleaseSystem],
        law: Law | None,
        tally: Tally,
        canaries: int,
        rounds: int,
        run_scores: Mapping[Place, NDArray[np.float64]],
    ) -> tuple[CanaryResult, tuple[float, float] | None]:
        """Return what one canary's rule showed, and its true rates (TPR, FPR) where they are known.

        A bound from fewer or more trials than were declared would be another claim.
        """
        counts, declared = tally.counts(case.place, rounds), self.settings.trials
        if (counts.n1, counts.n0) != (declared, declared):
            raise IncompleteError(
                f"{case.attack.name} canary {case.index} has {counts.n1:,} trials with it eligible and {counts.n0:,} "
                f"without, and {declared:,} of each were declared; play them all before you judge."
            )
        threshold, score, delta = case.thresholds[rounds - 1], case.scores[rounds - 1], self.mechanism.delta
        designed = case.designs[rounds - 1] if case.designs else None
        exact: dict[str, Any] = dict.fromkeys(("supremum", "rule", "absent_rate", "eligible_rate"))
        pair = None
        if law is not None:
            # No attack on our own mechanism exceeds its epsilon; of other systems nothing is known.
            own = all(type(each) is BankSystem and each.mechanism == self.mechanism for each in systems)
            limit = epsilon(self.mechanism, rounds) if own else math.inf
            rates, most = law.rates(threshold.value), supremum(law, delta)
            absent, eligible = (Interval(float(ends.lower), float(ends.upper)) for ends in (rates.fpr, rates.tpr))
            reached = at_most(most.interval, limit)
            exact = {
                "supremum": reached,
                # The point search may stop short of what is certified, and the law may give no upper end.
                "exact": min(max(most.point, reached.lower), reached.upper),
                "rule": at_most(epsilon_at(law, threshold.value, delta), limit),
                "absent_rate": absent,
                "eligible_rate": eligible,
            }
            pair = (eligible.midpoint, absent.midpoint)
            if case.summed:  # certified ends over several rounds are wide, and their law has a point value
                fpr, tpr = law.point(threshold.value)
                pair = (float(np.clip(tpr, 0.0, 1.0)), float(np.clip(fpr, 0.0, 1.0)))
        run_score = run_scores.get(case.place)
        return CanaryResult(
            canary=case.canary,
            bank_hash="" if designed is None else designed.bank.hash,
            inspected=() if designed is None else tuple(int(position) for position in designed.inspected),
            selected=() if designed is None else designed.selected,
            mu_eff=float(score.mu_eff),
            probe_norm=float((score.canary**2).sum() ** 0.5),
            threshold=threshold,
            counts=counts,
            bound=canary_bound(counts, self.mechanism, self._declared(len(case.scores)), canaries),
            **exact,
            run_score=None if run_score is None else float(run_score[rounds - 1]),
            pool=None if designed is None or designed.pool is None else designed.pool.facts,
            search=None if designed is None or designed.pool is None else designed.pool.search,
        ), pair

    def _claimed(
        self,
        attack: str,
        judged: Sequence[tuple[CanaryResult, tuple[float, float] | None]],
        rounds: int,
        of: int,
        accounted: tuple[float, str] | None,
    ) -> dict[str, Any]:
        """Return the claims over an attack's canaries: headline, pooled, ledger and ladder.

        The headline is the maximum over canaries, each at its share of alpha, or the pooled bound at all of alpha where
        that was the method declared: with probability at least 1 - alpha it does not exceed the mechanism's epsilon.
        """
        canaries, settings = [canary for canary, _ in judged], self._declared(of)
        beside = pooled_bound([canary.counts for canary in canaries], self.mechanism, settings)
        claim = headline([canary.bound for canary in canaries], beside, settings)
        names = claim_names(attack, [canary.canary for canary in canaries], settings)
        return {
            "headline": claim,
            "pooled": beside,
            "ledger": AlphaLedger.split(settings.alpha, names),
            "ladder": self._ladder(judged, settings, rounds, claim, accounted),
        }

    def _ladder(
        self,
        judged: Sequence[tuple[CanaryResult, tuple[float, float] | None]],
        settings: Settings,
        rounds: int,
        claim: Bound,
        accounted: tuple[float, str] | None,
    ) -> Ladder:
        exact, shown = epsilon(self.mechanism, rounds), claim.epsilon
        claimed, source = accounted or (exact, "no accountant's figure was given: the mechanism's own")
        over = f"the best of {len(judged)} canaries" if len(judged) > 1 else "one canary"
        one = "one release" if rounds == 1 else f"{rounds} releases"

        def reached(name: str, intervals: Iterable[Interval | None], where: str) -> Rung | None:
            best = max((ends for ends in intervals if ends is not None), key=lambda ends: ends.lower, default=None)
            return None if best is None else Rung.known(name, best, f"exact, at the {where} threshold, {over}")

        pairs = [pair for _, pair in judged if pair is not None]
        forecast = None
        if len(pairs) == len(judged):
            law = expected_bound(
                [tpr for tpr, _ in pairs],
                [fpr for _, fpr in pairs],
                settings.trials,
                delta=self.mechanism.delta,
                method=settings.method,
                alpha=settings.share(len(judged)),
                q=self.mechanism.q,
            )
            forecast = Rung(
                "expected",
                law.median,
                law.q05,
                law.q95,
                f"median and 5% to 95% range of the bound at {settings.trials:,} trials a hypothesis",
            )
        return Ladder(
            accounted=Rung("accounted", claimed, claimed, claimed, source),
            mechanism=Rung(
                "mechanism", exact, exact, exact, f"the exact epsilon of {one}, by its privacy loss distribution"
            ),
            attack=reached("attack", (canary.supremum for canary, _ in judged), "best"),
            rule=reached("rule", (canary.rule for canary, _ in judged), "frozen"),
            expected=forecast,
            observed=Rung("observed", shown, shown, shown, str(claim)),
        )


def claim_names(attack: str, canaries: Sequence[str], settings: Settings) -> list[str]:
    """Return the names of the claims behind an attack's headline, which share its alpha.

    Args:
        attack: The attack's name.
        canaries: The names of its canaries.
        settings: Says which claims the headline is made of.

    Example:
        >>> from canarybank.auditing import Settings
        >>> claim_names("nonce", ["a", "b"], Settings())
        ['nonce/a', 'nonce/b']
    """
    return [f"{attack}/{name}" for name in (["pooled"] if settings.method.pools else canaries)]


def cases_by_attack(cases: Sequence[Case]) -> list[list[Case]]:
    """Return the cases of each attack, wherever they stand: they share its alpha."""
    if not cases:
        raise InputError("An audit needs at least one canary.")
    if len({case.place for case in cases}) < len(cases):
        raise InputError("Two cases have the same attack and index; their trials would be the same ones.")
    names = dict.fromkeys(case.attack.name for case in cases)
    return [[case for case in cases if case.attack.name == name] for name in names]


def _count_with(counters: Sequence[Callable[[Shard], tuple[int, ...]]], task: tuple[int, Shard]) -> tuple[int, ...]:
    number, shard = task
    return counters[number](shard)


def _law_of(system: ReleaseSystem, score: LinearScore) -> RoundLaw | None:
    law = getattr(system, "law", None)
    return None if law is None else law(score)


def _rates(tally: Tally, case: Case) -> str:
    counts = tally.counts(case.place, len(case.thresholds))
    pairs = (("TPR", counts.tp, counts.n1), ("FPR", counts.fp, counts.n0))
    shown = ", ".join(f"{name} {positives / trials:.2e}" for name, positives, trials in pairs if trials)
    return f"{case.attack.name} canary {case.index}: {shown}"


def _restored(
    kept: Mapping[str, NDArray[Any]], attack: Attack, canary: Canary, table: RouteTable, bank: Bank, pool: Pool | None
) -> Design:
    selected = tuple(int(j) for j in kept["selected"])
    if pool is not None:
        texts = None if pool.texts is None else [pool.texts[j] for j in selected]
        bank = bank.with_probes(pool.vectors[list(selected)], None if bank.texts is None else texts)
    inspected, contribution = kept["inspected"].copy(), kept["contribution"].copy()
    score = LinearScore(kept["contribution"], Moments(kept["mean"], kept["covariance"]))
    return Design(attack, canary, bank, pool, selected, inspected, contribution, score, table)
