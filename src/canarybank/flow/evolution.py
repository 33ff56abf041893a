"""Run Private Evolution in a folder from a configuration, measure and audit it; the same command resumes it.

A ``Scene`` holds what an evolution starts from: who votes, who is held out, what is planted, and what is spent.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from canarybank.auditing import Claims
from canarybank.config import Config, EvolveConfig, Resolved
from canarybank.config.model import BankConfig, shares_of
from canarybank.defend import Vetting
from canarybank.encode import CachedEncoder
from canarybank.engine import Engine
from canarybank.errors import BudgetError, ConfigError
from canarybank.evolution import (
    ACCOUNT,
    Canaries,
    Evolution,
    EvolutionLoop,
    EvolutionPlan,
    Feedback,
    Keep,
    MixedFeedback,
    Population,
    Probes,
    Published,
    Reference,
    ReleaserFactory,
    Taking,
    Utility,
    Voters,
    VotingUsers,
    audit_cost,
    find_noise,
    split,
    utility,
)
from canarybank.flow.audit import AuditWork, Designs, Told, hold_to, mechanism_of
from canarybank.flow.bank import bank_labels, bank_prompt, gather_candidates
from canarybank.flow.carried import Carried, carry_canaries, refuse_unfit_audit
from canarybank.flow.generators import evolution_generator, sending_recorded
from canarybank.flow.inputs import (
    build_engine,
    cached_encoder,
    connect_engine,
    evolved_attacks,
    gather,
    users_source,
)
from canarybank.flow.real_run import (
    is_real,
    require_isolated,
    require_private,
)
from canarybank.flow.sample import write_sample
from canarybank.flow.voters import real_voters
from canarybank.generate import Generator
from canarybank.measure import Mauve
from canarybank.mechanism import Account, Bank, Mechanism, affordable_rounds, q_for_users, sigma_for_epsilon
from canarybank.mechanism.mechanism import require_delta
from canarybank.progress import SILENT, Progress
from canarybank.registry import FEEDBACKS, KEEPERS, PARENT_RULES, call_with, takes
from canarybank.run.carried import certify, describe_canaries
from canarybank.run.clouds import map_clouds, populations_of
from canarybank.run.folder import EVOLUTION, PLAIN, RESULTS, TRIALS, Run, keep_defaults
from canarybank.run.one_run import OneRunPlant
from canarybank.run.results import EvolutionFacts, Results, account_state, round_facts, statement_of
from canarybank.run.trials_log import ShardLog
from canarybank.run.verification import refuse_unverified
from canarybank.store import StageCache, read_checked
from canarybank.users import Delimited, Users

__all__ = ["Scene", "mauve_of", "plan_of", "run_evolution", "set_scene", "spending_mechanism"]

_CONDITIONAL = (
    "The claim is conditional on the banks that this run realised: a trial makes one independent release over each of "
    "these banks, held fixed, and does not evolve. Each round's score is built on the bank that the run's own releases "
    "before it led to. So the claim does not cover what a user's presence does to later banks; another run would have "
    "other banks and figures."
)
_ONE_LINE = (
    "In a real run each line of the file of users is one row: a field cannot hold a line break, and lines that cannot "
    "be read are skipped without being counted."
)
_TOGETHER = (
    "The probes of all canaries stand in the same banks and draw votes from each other: each bound holds, and may be "
    "smaller than that of a run with this canary alone."
)


def run_evolution(
    resolved: Resolved,
    folder: Path | str,
    *,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    command: str = "",
    told: Told | None = None,
    releaser: ReleaserFactory | None = None,
) -> Run:
    """Run an evolution in a folder, or go on with the one that stands there; a finished one is returned as it is.

    A release that was made is never made again, whatever ended the process that made it. Where the next release would
    pass the budget, the run ends there, and ``results.stopped`` says so.

    Args:
        resolved: The configuration with its origins.
        folder: The run's folder; made where there is none. Only one process may work on it.
        engine: Where the audit's trials run; by default on a thread for each core, or for each of ``run.workers``.
        progress: Where progress is shown.
        command: The command to name in the manifest.
        told: Called before each round with a sentence that holds the root of its bank, and after it with one on what
            all releases so far spend.
        releaser: Makes, from voters and plan, where the noisy histograms come from; left out, they are drawn from the
            users' votes. A test puts its own releases in here.
    """
    resolved = keep_defaults(resolved, folder)
    config = resolved.config
    _refuse_unfit(config)
    with Run.held(resolved, Path(folder), command, "evolution", statement=statement_of(config.evolve)) as run:
        if run.is_finished:
            refuse_unverified(run, rewritten=True)
            _require_same_account(run, config)
            return run
        engine = connect_engine(engine or build_engine(config.run))
        cache, generator = StageCache(), evolution_generator(config, engine)
        # What a real run sends follows from its releases; what it retried is nobody's business.
        with sending_recorded(run, config, generator, counted=not is_real(config)):
            scene = set_scene(config, cache, progress, generator, engine)
            results = _Work(config, scene, run, progress, told or (lambda _: None), releaser).results()
        run.write(RESULTS, results)
        # What a cache held depends on the users whose texts were in it before.
        made = {} if is_real(config) else {"made": dict(cache.made), "found": dict(cache.found)}
        run.finish(commitment=results.commitment, stages=made)
    return run


def _refuse_unfit(config: Config) -> None:
    """Refuse, before anything is read, what cannot be drawn or paid for, or would send what nobody declared."""
    require_private(config)
    refuse_unfit_audit(config)
    if is_real(config):
        find_noise(config.evolve.noise)
        if config.evolve.account is not None:
            Account(config.evolve.account)
    if config.bank.source == "generate":
        bank_labels(config.bank, config.users)
    evolved_attacks(config)


def _require_same_account(run: Run, config: Config) -> None:
    """Refuse to take a finished run for one that another account paid for."""
    evolution, path = run.results.evolution, config.evolve.account
    paid = None if evolution is None else evolution.account
    if paid is not None and path is not None and Account(path).opening.hash != paid.opening:
        raise ConfigError(
            f"The evolution in {str(run.folder)!r} was paid for by another budget account than {path!r}. Name that "
            "account, or choose another folder."
        )


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that an evolution starts from.

    ``start`` is the first population of the run without probes. An audited run starts from the first bank of ``audit``,
    with the probes in it, and the evaluation cohort are its voters. So does one that carries its own canaries
    (``carried``), but its voters are all users, and the canaries beside them.
    """

    voters: Users | VotingUsers
    reference: Reference | None
    start: Population
    plan: EvolutionPlan
    encoder: CachedEncoder
    generator: Generator
    notes: tuple[str, ...]
    audit: Designs | None = None
    carried: Carried | None = None

    @property
    def audited_start(self) -> tuple[Population, Probes | None]:
        """Return the first population and the probes of the audited run."""
        if self.audit is not None:
            bank = self.audit.planted
        elif self.carried is not None:
            bank = self.carried.planted
        else:
            return self.start, None
        return split(bank, [self.start.labels[i] for i in bank.base])


def set_scene(config: Config, cache: StageCache, progress: Progress, generator: Generator, engine: Engine) -> Scene:
    """Read and admit users, hold the reference out, and draw cohorts where there is an audit."""
    if is_real(config):
        return _set_real(config, cache, progress, generator, engine)
    inputs = gather(config, cache, generator, progress, evolving=True)
    voters = inputs.voters(engine)
    mechanism = spending_mechanism(config, len(voters))
    plan, carried = plan_of(config.evolve, mechanism, config.bank), None
    if config.evolve.audit_one_run:
        carried = carry_canaries(config, inputs.bank, mechanism, inputs.encoder)
        plan.check(Published.of(*split(carried.planted)))  # before the commitment to these canaries
    return Scene(
        voters=voters,
        reference=inputs.reference,
        start=split(inputs.bank, inputs.candidates.labels)[0],
        plan=plan,
        encoder=inputs.encoder,
        generator=generator,
        notes=_notes(config.evolve, inputs.notes, mechanism),
        audit=Designs(inputs, mechanism, engine) if inputs.attacks else None,
        carried=carried,
    )


def _set_real(config: Config, cache: StageCache, progress: Progress, generator: Generator, engine: Engine) -> Scene:
    """Set a real run up: every value in the scene but the voters is a function of public inputs.

    The bank comes first, so that an encoder or generator that does not work fails on public texts, with its own words.
    The encoder shows no progress: how many texts its cache lacks depends on the users' own.
    """
    encoder = cached_encoder(config.encoder, isolated=True)
    require_isolated(encoder)
    encoder.check_writable()  # or the moment of the warning would tell which texts the cache holds
    mechanism = spending_mechanism(config)
    candidates = gather_candidates(config.bank, config.users, generator, cache, progress=progress)
    with progress.step("encoding the bank"):
        bank = Bank(encoder.encode(candidates.texts), candidates.texts)
    start, plan, carried = (
        split(bank, candidates.labels)[0],
        plan_of(config.evolve, mechanism, config.bank),
        None,
    )
    plan.check(Published.of(start, None))
    if config.evolve.audit_one_run:
        with progress.step("making canaries"):
            carried = carry_canaries(config, bank, mechanism, encoder)
        plan.check(Published.of(*split(carried.planted)))
    voters = real_voters(config, encoder, cache, progress, engine)
    reading = (_ONE_LINE,) if isinstance(users_source(config.users).format, Delimited) else ()
    return Scene(
        voters=voters,
        reference=None,
        start=start,
        plan=plan,
        encoder=encoder,
        generator=generator,
        notes=_notes(config.evolve, (*reading, *candidates.notes), mechanism),
        carried=carried,
    )


def spending_mechanism(config: Config, voters: int | None = None) -> Mechanism:
    """Return the mechanism of each round: q from the users per round and sigma from the epsilon of all, where given.

    The users are as many as ``evolve.population`` declares; a simulation may count its voters instead.
    """
    mechanism, chosen = mechanism_of(config), config.evolve
    require_delta(mechanism.delta, "An evolution")
    population = chosen.population if chosen.population is not None else voters
    if chosen.users is not None and population is not None:
        mechanism = replace(mechanism, q=q_for_users(chosen.users, population))
    if chosen.epsilon is not None:
        sigma = sigma_for_epsilon(chosen.epsilon, q=mechanism.q, delta=mechanism.delta, rounds=chosen.rounds)
        mechanism = replace(mechanism, sigma=sigma)
    return mechanism


def plan_of(config: EvolveConfig, mechanism: Mechanism, bank: BankConfig | None = None) -> EvolutionPlan:
    """Return what the rounds do; users were capped when they were admitted.

    Fresh candidates are asked for as ``bank`` says, which is vetted where it says so.
    """
    bank = bank or BankConfig()
    return EvolutionPlan(
        mechanism,
        config.rounds,
        keep=Keep(config.share, config.keep),
        new=config.new,
        feedback=_feedback_of(config, bank),
        taking=Taking(similarity=config.near, tries=config.tries),
        cap=None,
        budget=config.budget,
        seed=config.seed,
        insecure_seed=config.insecure_seed,
        noise=config.noise,
        account=config.account,
        vetting=Vetting.load() if bank.vet else None,
        keeper=call_with(KEEPERS.find(config.keeper), threshold=config.threshold),
        carry=config.carry,
        temperature=config.temperature,
    )


def _feedback_of(config: EvolveConfig, bank: BankConfig) -> Feedback:
    """Return the rule that asks for new candidates, or the mixture of several."""
    entries = shares_of(config.feedback)
    if config.prompt is not None and {"in-context", "paraphrase"} <= {name for name, _ in entries}:
        raise ConfigError(
            "evolve.prompt cannot be the prompt of both in-context and paraphrase, whose fields differ. Leave it out, "
            "or leave one of them out of evolve.feedback."
        )
    parents = call_with(PARENT_RULES.find(config.parents))
    given = {"high": config.high, "low": config.low, "kind": config.kind, "distance": config.distance}

    def build(name: str) -> Feedback:
        prompts = {"vary": config.vary_prompt, "blanks": config.blanks_prompt, "fresh": None}
        options: dict[str, Any] = {**given, "parents": parents}
        if name == "fresh":
            prompt, examples = bank_prompt(bank)
            options |= {"prompt": prompt, "examples": examples or (), "shots": bank.shots}
        elif (prompt_name := prompts.get(name, config.prompt)) is not None:
            options["prompt"] = prompt_name
        if config.feedback == "paraphrase" and config.parents == "even":
            del options["parents"]  # alone, it goes round the kept ones by itself
        rule: Feedback = call_with(FEEDBACKS.find(name), **options)
        return rule

    rules = tuple((build(name), share) for name, share in entries)
    return rules[0][0] if len(rules) == 1 else MixedFeedback(rules)


def mauve_of(config: EvolveConfig) -> Mauve | None:
    """Return MAUVE with its settings, or None where it is not wanted or not installed."""
    if not config.mauve or find_spec("mauve") is None:
        return None
    return Mauve(buckets=config.buckets)


def _notes(config: EvolveConfig, known: tuple[str, ...], mechanism: Mechanism) -> tuple[str, ...]:
    notes = [*known, *_unused(config)]
    if config.budget is not None:
        rounds = affordable_rounds(mechanism, config.budget, config.rounds)
        if rounds < config.rounds:
            notes.append(f"The budget of {config.budget:g} affords {rounds} of {config.rounds} rounds.")
    if config.reference and config.mauve and find_spec("mauve") is None:
        notes.append("MAUVE was left out, for mauve-text is not installed; run: pip install 'canarybank[mauve]'")
    return tuple(notes)


def _unused(config: EvolveConfig) -> list[str]:
    """Return a note for each setting that was changed and that none of the chosen rules takes."""
    feedbacks = [FEEDBACKS.find(name) for name, _ in shares_of(config.feedback)]
    used_by = {
        "distance": ("evolve.feedback", feedbacks),
        "threshold": ("evolve.keeper", [KEEPERS.find(config.keeper)]),
    }
    return [
        f"evolve.{name} is {getattr(config, name)}, which changes nothing: the rule in {key} takes no {name}."
        for name, (key, rules) in used_by.items()
        if getattr(config, name) != EvolveConfig.model_fields[name].default
        and not any(takes(rule, name) for rule in rules)
    ]


@dataclass(frozen=True)
class _Work:
    """The steps of one evolution, in their order."""

    config: Config
    scene: Scene
    run: Run
    progress: Progress
    told: Told
    releaser: ReleaserFactory | None

    def results(self) -> Results:
        """Walk from the first bank to the last figure."""
        scene, config, folder = self.scene, self.config, self.run.folder
        plant, canaries = self._committed()
        evolution, stopped = self._rounds(EVOLUTION, *scene.audited_start, canaries)
        self.run.require_folder()
        evolution.write(folder)
        if config.evolve.sample is not None and evolution.rounds:
            write_sample(evolution, folder, config.evolve.sample, seed=config.evolve.seed)
        measured, plain, account = self._measured(evolution), None, None
        if measured is not None and measured.probes and config.evolve.compare:
            # The same rounds without probes, measured alike: the difference is what the probes cost.
            plain = self._measured(self._rounds(PLAIN, scene.start, None)[0])
        if scene.plan.is_real and scene.plan.account is not None:
            paying = str(read_checked(folder / EVOLUTION / ACCOUNT)["run"])
            account = account_state(Account(scene.plan.account), paying)
        candidates = evolution.population.candidates
        last = max(candidate.born for candidate in candidates)
        facts = EvolutionFacts(
            insecure_seed=config.evolve.insecure_seed,
            complete=len(evolution.rounds) == config.evolve.rounds,
            stopped=stopped,
            account=account,
            voters=None if is_real(config) else len(scene.voters),
            evolve=config.evolve,
            encoder=scene.encoder.name,
            generator=scene.generator.name,
            rounds=round_facts(evolution),
            candidates=len(candidates),
            examples=tuple(each.text for each in candidates if each.born == last)[:12],
            utility=measured,
            plain=plain,
            cost=() if measured is None or plain is None else audit_cost(measured, plain),
            clouds=None
            if scene.reference is None
            else map_clouds(populations_of(evolution), scene.reference, insecure_seed=evolution.insecure_seed),
            certificate=None if plant is None else certify(plant, evolution.rounds),
            carried=None if plant is None else describe_canaries(plant, evolution.rounds),
        )
        if scene.audit is None or not evolution.rounds:
            return Results(
                commitment=None if plant is None else plant.hash,
                statement=statement_of(config.evolve),
                mechanism=evolution.mechanism,
                audit=config.audit,
                seed=config.run.seed,
                rounds=len(evolution.rounds),
                epsilon=evolution.spent.epsilon,
                attacks=(),
                notes=scene.notes,
                evolution=facts,
            )
        return self._audited(AuditWork(scene.audit, evolution), facts)

    def _committed(self) -> tuple[OneRunPlant | None, Canaries | None]:
        """Commit to the canaries that the run carries, before its first release."""
        if self.scene.carried is None:
            return None, None
        plant = self.scene.carried.commit(
            self.run,
            self.config,
            lambda digest: self.told(f"commitment: sha256 {digest}; publish it now, before the first release"),
        )
        return plant, self.scene.carried.canaries(plant)

    def _audited(self, work: AuditWork, facts: EvolutionFacts) -> Results:
        """Commit to the rules over the banks that the run realised, play the trials, and judge them."""
        commitment = hold_to(
            self.run,
            work.commitment,
            lambda digest: self.told(f"commitment: sha256 {digest}; publish it now, before the results are known"),
        )
        log = ShardLog(self.run.folder / TRIALS, commitment.hash, self.run.require_folder)
        together = [_TOGETHER] if sum(case.attack.active for case in work.cases) > 1 else []
        about = (  # a real run is never audited
            f"The run is a simulation, its releases seeded with {facts.insecure_seed}. Exact figures and counts are "
            "computed from evaluation users' records: they are not differentially private."
        )
        notes = (_CONDITIONAL, Claims.EACH.statement, *together, about, *self.scene.notes)
        return work.results(commitment, log, statement=statement_of(self.config.evolve), evolution=facts, notes=notes)

    def _rounds(
        self, name: str, start: Population, probes: Probes | None, canaries: Canaries | None = None
    ) -> tuple[Evolution, str | None]:
        """Make all rounds, or as many as the budget affords, and say why no more."""
        scene, plan, make = self.scene, self.scene.plan, self.releaser
        self.run.require_folder()
        with EvolutionLoop(
            scene.voters,
            start,
            plan,
            scene.encoder,
            scene.generator,
            probes=probes,
            canaries=canaries,
            folder=self.run.folder / name,
            progress=self.progress,
            releaser=None if make is None else make(Voters(scene.voters, plan.cap, canaries), plan),
        ) as rounds:
            try:
                while rounds.done < plan.rounds:
                    self.run.require_folder()
                    if name == EVOLUTION and (root := rounds.unvoted_root) is not None:
                        number = f"round {rounds.done + 1} of {plan.rounds}"
                        self.told(f"{number}: the root of its bank is {root}; publish it now, before the vote")
                    done = rounds.advance()
                    kind = " without probes" if name == PLAIN else ""
                    self.told(f"round {done.number + 1} of {plan.rounds}{kind}: {done.spent}")
            except BudgetError as error:
                return rounds.conclude(), str(error)
            return rounds.conclude(), None

    def _measured(self, evolution: Evolution) -> Utility | None:
        scene, chosen = self.scene, self.config.evolve
        if scene.reference is None:
            return None
        mauve = mauve_of(chosen)
        return utility(evolution, scene.reference, mauve=mauve, similarity=chosen.near, progress=self.progress)
