"""Say before one run what it could show, and what its canaries take: from public things alone."""

from dataclasses import replace

from canarybank.auditing.one_run import Coins, RunDeclaration, RunEvidence
from canarybank.config import Config
from canarybank.encode import Encoder
from canarybank.errors import InputError
from canarybank.flow.bank import GENERATED_SIZE, Candidates
from canarybank.flow.canaries import count_canaries, declare_run, refuse_untestable
from canarybank.flow.carried import make_publicly
from canarybank.flow.design import claim_of
from canarybank.flow.evolution import spending_mechanism
from canarybank.mechanism import Bank, Claim, Mechanism
from canarybank.run.commitment import Epsilon, Record

__all__ = ["ExpectedBound", "OneRunPlan", "plan_one_run"]

_MAUVE = " MAUVE is not known before the run: a simulated one, with evolve.reference and evolve.compare, measures it."


class ExpectedBound(Record):
    """What one kind of evidence will typically show of one run."""

    coins: Coins
    """Under which protocol."""
    evidence: RunEvidence
    """How scores become a bound."""
    is_chosen: bool
    """Whether the configuration asks for it."""
    median: Epsilon
    """The median bound on the epsilon of all releases."""
    low: Epsilon
    """Its 5% end."""
    high: Epsilon
    """Its 95% end; where it is 0, a bound above 0 has a chance below 5%."""


class OneRunPlan(Record):
    """What the canaries of one run take, and what the run could show."""

    canaries: int
    """The canaries, all synthetic."""
    probes: int
    """The probes of each: entries of the bank that no honest candidate can have."""
    bank: int
    """The entries of the bank, probes included."""
    share: float
    """The share of the bank that is probes."""
    votes: float | None
    """The share of the votes of public records that probes would take, the candidates in whose places they stand;
    null where there is no bank yet."""
    shift: float
    """What taking part adds to a canary's score on average, in deviations of the noise."""
    limit: float | None
    """The largest shift that the claimed mechanism allows; null where none is named."""
    q: float
    """The rate of taking part in a release."""
    sigma: float | None
    """The noise multiplier; null where no mechanism is named."""
    rounds: int
    """The releases."""
    claimed: Epsilon
    """The epsilon that the run is held against; null where it is infinite."""
    expected: tuple[ExpectedBound, ...]
    """What each kind of evidence will typically show, under both protocols."""
    power: tuple[str, ...]
    """What the chosen evidence would show, and which violations it would refute."""
    shows: bool
    """Whether the chosen evidence has a chance of 5% or more to show anything."""
    statement: str
    """What one run could show, in a sentence or two."""
    cost: str
    """What the canaries cost, in a sentence or two."""


def plan_one_run(config: Config, candidates: Candidates, encoder: Encoder, users: int | None = None) -> OneRunPlan:
    """Say what one run could show under a configuration; no user's record is read for it.

    Canaries are made as the run would make them, from public things.

    Args:
        config: The configuration, with ``evolve.audit_one_run`` or ``system.one_run``.
        candidates: The candidates of the bank; none where a generator has still to write them.
        encoder: The encoder of the bank.
        users: How many users a simulation has, where its rate of taking part follows from that.
    """
    claim, mechanism = _claim(config, users)
    size = len(candidates.texts) or config.bank.size or GENERATED_SIZE
    count = count_canaries(config, size)
    vote = min(1 / mechanism.k, 1.0 if mechanism.entry_cap is None else mechanism.entry_cap)
    shift = min(1.0, mechanism.k**0.5 * vote / mechanism.clip) / mechanism.sigma  # of a perfect canary
    votes = None
    if candidates.texts:
        seed = config.evolve.seed if config.evolve.audit_one_run else config.cohorts.seed
        bank = Bank(encoder.encode(candidates.texts), candidates.texts)
        _, _, reading, votes = make_publicly(config, bank, mechanism, encoder, seed)
        shift = float(reading.shifts.mean())
    declared = declare_run(config, claim, count, shift)
    expected = tuple(
        ExpectedBound(
            coins=each.coins,
            evidence=kind,
            is_chosen=each is declared,
            median=found.median,
            low=found.q05,
            high=found.q95,
        )
        for each in (declared, *_other_protocol(declared))
        for kind in each.evidence
        for found in (each.expected(kind),)
    )
    chosen = [each for each in expected if each.is_chosen]
    return OneRunPlan(
        canaries=count,
        probes=mechanism.k,
        bank=size,
        share=count * mechanism.k / size,
        votes=votes,
        shift=declared.shift,
        limit=declared.limit if claim.mechanism is not None else None,
        q=claim.q,
        sigma=None if claim.mechanism is None else mechanism.sigma,
        rounds=claim.rounds,
        claimed=claim.epsilon,
        expected=expected,
        power=declared.power,
        shows=any(each.high > 0 for each in chosen),
        statement=_statement(declared, expected),
        cost=_cost(count * mechanism.k, size, votes) + _MAUVE * config.evolve.audit_one_run,
    )


def _claim(config: Config, users: int | None) -> tuple[Claim, Mechanism]:
    """Return what the run would be held against, and the mechanism of its releases."""
    if config.evolve.audit_one_run:
        mechanism = spending_mechanism(config, users)
        return Claim.of(mechanism, config.evolve.rounds), mechanism
    claim = claim_of(config)
    refuse_untestable(config, claim)
    return claim, Mechanism(**config.mechanism.model_dump())


def _other_protocol(declared: RunDeclaration) -> tuple[RunDeclaration, ...]:
    """Return the same run under the other protocol, with its usual evidence; none where the claim does not allow it."""
    other = Coins.FAIR if declared.coins is Coins.KNOWN else Coins.KNOWN
    try:
        return (replace(declared, coins=other, evidence=()),)
    except InputError:
        return ()


def _statement(declared: RunDeclaration, expected: tuple[ExpectedBound, ...]) -> str:
    """Say what one run would typically show by the chosen evidence, and where that is nothing, what would show more."""
    best, other = (
        max((each for each in expected if each.is_chosen is chosen), key=lambda each: each.median, default=None)
        for chosen in (True, False)
    )
    assert best is not None  # noqa: S101, a declaration has evidence
    claim = declared.claim
    over = f"{claim.rounds} release{'s' * (claim.rounds > 1)}"
    given = f"{declared.canaries:,} canaries, {declared.coins.value} coins, q {claim.q:.3g} and {over}"
    better = "More canaries, or more releases, show more."
    if other is not None and other.median > 2 * best.median:
        better = (
            f"With one_run.coins {other.coins.value}, {other.evidence.value} would typically show an epsilon of "
            f"{other.median:.3g}."
        )
    if not any(each.high > 0 for each in expected if each.is_chosen):
        return f"One run cannot show anything here: with {given}, a bound above 0 has a chance below 5%. {better}"
    if best.median == 0:
        return f"One run would typically show nothing: with {given}, half of such runs give a bound of 0. {better}"
    return (
        f"One run would typically show an epsilon of {best.median:.3g} of {claim.epsilon:.4g}, by "
        f"{best.evidence.value} with {given}; {best.low:.3g} to {best.high:.3g} in 90 of 100 runs."
    )


def _cost(probes: int, size: int, votes: float | None) -> str:
    """Say what the canaries cost in privacy, in slots and in votes, and what that means for utility."""
    taken = "the votes that they would take are not known before there is a bank"
    if votes is not None:
        taken = f"they would take {100 * votes:.3g}% of the votes of the candidates in whose places they stand"
    return (
        "Canaries are synthetic users and cost real users no privacy. Their probes hold "
        f"{probes:,} of {size:,} entries that honest candidates would have, and {taken}."
    )
