"""The zoo: small systems, honest and broken, each of which shows what an audit can see and what it cannot.

All of them count votes of 40 background users and one canary on a bank of a few hundred entries, clip, sample, and add
noise: the mechanism of Private Evolution in miniature. They claim ``Mechanism()``, so q = 0.1, sigma = 1, clip = 0.1
(two of them claim q = 0.5), and each broken one breaks one thing. The inspected entries are probes, for which the
canary votes and background users rarely do, and popular entries, for which all background users vote. 100,000 runs take
about a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism import Claim, Mechanism, contributions
from canarybank.score import LinearScore, Moments
from canarybank.systems.trials import Hypothesis, Observation, Trial

__all__ = ["ZOO", "ZooSystem"]

USERS, RECORDS, POPULAR_VOTES = 40, 8, 3
BASE_ENTRIES = 170
RESTART_AFTER: Final = 50
"""After how many runs a generator that is restarted begins again."""
OWN_SEED: Final = 20240229
"""The seed of systems that take one of their own instead of the one they are given."""
CHUNK_ROWS = 1 << 15

Floats = NDArray[np.float64]
Clipping = Literal["honest", "per record", "before normalising", "on base only", "per label"]
NoiseShared = Literal["nothing", "trials", "rounds", "coordinates"]
Seeds = Literal["given", "by hypotheses", "restarted"]
Breaks = Literal["nothing", "privacy", "independence"]


@dataclass(frozen=True)
class ZooSystem:
    """A system of the zoo; it plays trials and makes releases.

    Args:
        name: Its name in the zoo.
        description: What it really releases, and why that is a violation or is none.
        blind: What else cannot see it, reasoned or computed; what was measured is in the record of `canarybank zoo`.
        breaks: What is broken: nothing, privacy (the claim of one run is false), or the independence of runs only.
        mechanism: The mechanism that it claims.
        rounds: How many releases one run makes.
        labels: The labels, with a histogram each; a single "" stands for none.
        concentrated: Whether all records of the canary vote alike; else its votes are spread over all probes.
        clipping: How users' votes are bounded.
        noise_factor: The noise's standard deviation, relative to the claimed one.
        noise_shared: What shares one draw of noise.
        noise_on_nonzero: Whether entries without any vote get no noise.
        sparse: Whether ``play`` leaves out values that are exactly 0; ``release`` has zeros there.
        participation: Each user's real probability of taking part; None is the claimed one.
        fixed_size: Whether the sample has a fixed size instead of independent coins.
        coins: How many coins each user tosses; each success adds the user's contribution.
        copies: How often a contribution is added at each success.
        seeds: Where randomness comes from.
    """

    name: str
    description: str
    blind: str
    breaks: Breaks = "privacy"
    mechanism: Mechanism = Mechanism()  # noqa: RUF009, a frozen value
    rounds: int = 1
    labels: tuple[str, ...] = ("",)
    concentrated: bool = False
    clipping: Clipping = "honest"
    noise_factor: float = 1.0
    noise_shared: NoiseShared = "nothing"
    noise_on_nonzero: bool = False
    sparse: bool = False
    participation: float | None = None
    fixed_size: bool = False
    coins: int = 1
    copies: int = 1
    seeds: Seeds = "given"

    @cached_property
    def claim(self) -> Claim:
        """Return what the system claims: the exact epsilon of its claimed mechanism over its rounds."""
        return Claim.of(self.mechanism, self.rounds)

    @property
    def coordinates(self) -> int:
        """Return how many values one round releases on the inspected entries, labels joined."""
        return len(self.world.inspected)

    @property
    def positions(self) -> tuple[tuple[str, int], ...]:
        """Return the inspected (label, position) pairs in the order of the released values."""
        per_label = self.world.bank_size // len(self.labels)
        return tuple((self.labels[entry // per_label], entry % per_label) for entry in self.world.inspected.tolist())

    @property
    def canary(self) -> Floats:
        """Return what the canary really adds to one release when it takes part by one coin."""
        return np.asarray(self.copies * self._contributions[-1])

    @property
    def background(self) -> Floats:
        """Return what each background user really adds, as a table (users, coordinates)."""
        return np.asarray(self.copies * self._contributions[:-1])

    @property
    def claimed_canary(self) -> Floats:
        """Return what the canary would add under the claimed mechanism."""
        return np.asarray(self._claimed[-1])

    @property
    def claimed_background(self) -> Floats:
        """Return what each background user would add under the claimed mechanism."""
        return self._claimed[:-1]

    @property
    def q(self) -> float:
        """Return the real probability that one coin of a user says yes."""
        return self.mechanism.q if self.participation is None else self.participation

    def designed_scores(self) -> tuple[LinearScore, ...]:
        """Return the scores that an auditor designs for the claimed mechanism, one a round: all rounds have the same.

        An audit adds their mixture scores up, which is the exact log-likelihood ratio where coins are fresh.
        """
        q, users = self.mechanism.q, self.claimed_background
        covariance = q * (1 - q) * users.T @ users + self.mechanism.noise**2 * np.eye(self.coordinates)
        one = LinearScore(self.claimed_canary, Moments(q * users.sum(axis=0), np.asarray(covariance, dtype=np.float64)))
        return (one,) * self.rounds

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> list[Observation | None]:
        """Return the releases of these trials, in order; any canary's name means the one canary there is."""
        planted = np.array([trial.hypothesis is Hypothesis.ELIGIBLE for trial in trials], dtype=bool)
        released = self._released(planted, rng)
        if self.sparse:
            return [tuple(values[values != 0] for values in rounds) for rounds in released]
        return [tuple(rounds) for rounds in released]

    def release(self, eligible: bool, size: int, rng: np.random.Generator) -> Floats:  # noqa: FBT001, our contract
        """Return releases, one a row, rounds joined. Seeds that hypotheses share are the system's own here."""
        if self.seeds == "by hypotheses":
            rng = np.random.default_rng(OWN_SEED)
        return self._released(np.full(size, eligible), rng).reshape(size, -1)

    def _released(self, planted: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
        """Return the releases of some runs, of shape (runs, rounds, coordinates)."""
        if self.seeds == "by hypotheses":  # the n-th absent and the n-th eligible run draw alike
            draws = np.where(planted, np.cumsum(planted), np.cumsum(~planted)) - 1
            return self._assembled(self._drawn(int(draws.max(initial=-1)) + 1, rng), planted, draws)
        if self.seeds == "restarted":
            drawn = self._drawn(RESTART_AFTER, np.random.default_rng(OWN_SEED))
            return self._assembled(drawn, planted, np.arange(len(planted)) % RESTART_AFTER)
        result = np.empty((len(planted), self.rounds, self.coordinates))
        for start in range(0, len(planted), CHUNK_ROWS):
            part = planted[start : start + CHUNK_ROWS]
            drawn = self._drawn(len(part), rng)
            result[start : start + len(part)] = self._assembled(drawn, part, np.arange(len(part)))
        return result

    def _drawn(self, runs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw one uniform number for each run, round, coin and user, the canary last, and the noise."""
        uniform = rng.random((runs, self.rounds, self.coins, USERS + 1))
        shape = {
            "trials": (1, self.rounds, self.coordinates),
            "rounds": (runs, 1, self.coordinates),
            "coordinates": (runs, self.rounds, 1),
        }.get(self.noise_shared, (runs, self.rounds, self.coordinates))
        source = np.random.default_rng(OWN_SEED) if self.noise_shared == "trials" else rng
        noise = source.standard_normal(shape) * (self.noise_factor * self.mechanism.noise)
        return uniform, np.broadcast_to(noise, (runs, self.rounds, self.coordinates))

    def _assembled(self, drawn: tuple[Floats, Floats], planted: NDArray[np.bool_], draws: NDArray[np.int64]) -> Floats:
        """Return the releases that these draws make of these runs."""
        uniform, noise = (each[draws] for each in drawn)
        if self.fixed_size:
            taking_part = self._fixed_sample(uniform[:, :, 0], planted)
        else:
            taking_part = (uniform < self.q).sum(axis=2)
            taking_part[~planted, :, -1] = 0
        votes = taking_part.astype(np.float64) @ np.vstack((self.background, self.canary))
        if self.noise_on_nonzero:
            noise = np.where(votes == 0, 0.0, noise)
        return votes + noise

    def _fixed_sample(self, uniform: Floats, planted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return who takes part where q times the number of users, rounded, are drawn without replacement."""
        keys = uniform.copy()
        keys[~planted, :, -1] = 2.0  # behind everybody
        size = round(self.q * USERS)
        return (keys <= np.partition(keys, size - 1, axis=-1)[..., size - 1 : size]).astype(np.int64)

    @cached_property
    def world(self) -> "World":
        """Return who votes for what."""
        return World.build(len(self.labels), concentrated=self.concentrated)

    @cached_property
    def _claimed(self) -> Floats:
        return self.world.bounded("honest", self.mechanism)

    @cached_property
    def _contributions(self) -> Floats:
        return self.world.bounded(self.clipping, self.mechanism)


@dataclass(frozen=True, eq=False)
class World:
    """The votes of the background users and, last, the canary.

    Banks of labels stand one after the other. Of each, the first entries are probes, the next are popular, and the rest
    is the base that nobody inspects.
    """

    votes: NDArray[np.int64]
    """The entries that each record votes for."""
    owners: NDArray[np.int64]
    labels: int
    probes: int
    popular: int

    @classmethod
    def build(cls, labels: int, *, concentrated: bool) -> "World":
        """Make the users' votes, always the same ones."""
        rng = np.random.default_rng(7)
        probes, popular = 24 // labels, 6 if labels == 1 else 4
        size = probes + popular + BASE_ENTRIES
        records = []
        for _ in range(USERS * RECORDS):
            often = probes + rng.choice(popular, POPULAR_VOTES, replace=False)
            rare = [
                int(rng.integers(probes)) if rng.random() < 0.1 else int(rng.integers(probes + popular, size))  # noqa: PLR2004
                for _ in range(5 - POPULAR_VOTES)
            ]
            records.append(int(rng.integers(labels)) * size + np.array([*often, *rare]))
        own = [
            label * size + (np.arange(5) if concentrated else np.arange(5 * record, 5 * record + 5) % probes)
            for label in range(labels)
            for record in range(4 if concentrated else 12 // labels)
        ]
        owners = np.concatenate((np.arange(USERS).repeat(RECORDS), np.full(len(own), USERS)))
        return cls(np.array(records + own, dtype=np.int64), owners, labels, probes, popular)

    @property
    def bank_size(self) -> int:
        """Return the number of entries of all labels' banks together."""
        return self.labels * (self.probes + self.popular + BASE_ENTRIES)

    @property
    def inspected(self) -> NDArray[np.int64]:
        """Return the inspected entries: of each label the probes, then the popular ones."""
        starts = np.arange(self.labels) * (self.bank_size // self.labels)
        return (starts[:, None] + np.arange(self.probes + self.popular)).ravel()

    def bounded(self, clipping: Clipping, mechanism: Mechanism) -> Floats:
        """Return what each user contributes on the inspected entries, bounded in the honest way or in a broken one."""
        if clipping == "honest":
            honest = contributions(self.votes, self.owners, USERS + 1, self.bank_size, mechanism.clip)
            return np.asarray(honest.toarray()[:, self.inspected])
        counts = np.zeros((USERS + 1, self.bank_size))
        if clipping == "per record":  # each record's votes are clipped, and then they are added up
            for owner, votes in zip(self.owners, self.votes, strict=True):
                record = np.bincount(votes, minlength=self.bank_size) / self.votes.shape[1]
                counts[owner] += _clipped(record, mechanism.clip)
            return counts[:, self.inspected]
        np.add.at(counts, (self.owners.repeat(self.votes.shape[1]), self.votes.ravel()), 1.0)
        if clipping == "before normalising":  # what is clipped is then divided by its own sum
            clipped = _clipped(counts, mechanism.clip)
            return np.asarray((clipped / clipped.sum(axis=1, keepdims=True))[:, self.inspected])
        if clipping == "on base only":  # the norm forgets the probes
            shares = counts / counts.sum(axis=1, keepdims=True)
            base = shares.copy()
            base[:, np.arange(self.bank_size) % (self.bank_size // self.labels) < self.probes] = 0
            norm = np.linalg.norm(base, axis=1, keepdims=True)
            return np.asarray((shares * np.minimum(1, mechanism.clip / np.maximum(norm, 1e-300)))[:, self.inspected])
        banks = counts.reshape(USERS + 1, self.labels, -1)  # per label: each histogram has the whole norm for itself
        shares = banks / np.maximum(banks.sum(axis=2, keepdims=True), 1)
        return _clipped(shares, mechanism.clip).reshape(USERS + 1, -1)[:, self.inspected]


def _clipped(vectors: Floats, clip: float) -> Floats:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors * np.minimum(1, clip / np.maximum(norms, 1e-300)))


_LABELS = ("a", "b", "c", "d")
_SYSTEMS = (
    ZooSystem(
        "honest",
        "Does what it claims, once. A control: whatever is found here is a false alarm.",
        blind="There is nothing to see: whatever is refuted is a false alarm.",
        breaks="nothing",
    ),
    ZooSystem(
        "honest-3-rounds",
        "Does what it claims in three rounds, with fresh coins and fresh noise in each. A control.",
        blind="There is nothing to see: whatever is refuted is a false alarm.",
        breaks="nothing",
        rounds=3,
    ),
    ZooSystem(
        "honest-4-labels",
        "Does what it claims with four labels: a user's votes for all labels are clipped together. A control.",
        blind="There is nothing to see: whatever is refuted is a false alarm.",
        breaks="nothing",
        labels=_LABELS,
    ),
    ZooSystem(
        "honest-concentrated",
        "Does what it claims with a canary whose records all vote alike. A control for the broken clips.",
        blind="There is nothing to see: whatever is refuted is a false alarm.",
        breaks="nothing",
        concentrated=True,
    ),
    ZooSystem(
        "honest-q-0.5",
        "Does what it claims with q = 0.5. A control for the fixed-size sample.",
        blind="There is nothing to see: whatever is refuted is a false alarm.",
        breaks="nothing",
        mechanism=Mechanism(q=0.5),
    ),
    ZooSystem(
        "noise-halved",
        "Adds half of the claimed noise, so it is the mechanism with sigma 0.5.",
        blind="Not measured: bounds that take the claimed noise as given, such as known coins with a claimed "
        "standard deviation.",
        noise_factor=0.5,
    ),
    ZooSystem(
        "noise-over-1.25",
        "Divides the noise by 1.25, so it is the mechanism with sigma 0.8.",
        blind="Computed, not measured: betting takes about 1,300,000 pairs to refute it in 90% of the audits, at a "
        "sixth of alpha 0.05 and with a perfect canary (`pairs_to_refute`).",
        noise_factor=0.8,
    ),
    ZooSystem(
        "noise-shared-by-trials",
        "Adds the same noise in every run: one release looks noisy, and the difference of two has no noise at all.",
        blind="Not measured: all bounds, for none is stated once runs are found to depend on each other.",
        noise_shared="trials",
    ),
    ZooSystem(
        "noise-shared-by-rounds",
        "Draws noise once a run and adds it in all three rounds, so the difference of two rounds has no noise.",
        blind="Not measured: designed scores, which add rounds up and so see the noise three times instead of "
        "cancelling it.",
        rounds=3,
        noise_shared="rounds",
    ),
    ZooSystem(
        "noise-shared-by-coordinates",
        "Adds one number to all coordinates; each looks noisy, and the difference of two coordinates has no noise.",
        blind="Not measured: any score on coordinates to which the canary adds the same, for the noise does so too.",
        noise_shared="coordinates",
    ),
    ZooSystem(
        "noise-on-nonzero-only",
        "Adds noise only where somebody voted, so a probe that is not exactly 0 shows that the canary took part.",
        blind="Not measured: plants whose probes get votes from background users in every run, for then no probe "
        "is ever 0.",
        noise_on_nonzero=True,
    ),
    ZooSystem(
        "only-nonzero-released",
        "Adds noise only where somebody voted and releases only these values, so how many there are shows the canary.",
        blind="Not measured: designed scores, which read values at places where they do not stand. Whoever reads "
        "the number of values needs no score.",
        noise_on_nonzero=True,
        sparse=True,
    ),
    ZooSystem(
        "q-doubled",
        "Lets each user take part with probability 0.2 instead of the claimed 0.1.",
        blind="Not measured: the stratified bound, and known coins with q as an assumption, which take q as given."
        " Computed, not measured: betting takes about 1,900,000 pairs to refute it in 90% of the audits, with "
        "a perfect canary.",
        participation=0.2,
    ),
    ZooSystem(
        "q-ignored",
        "Lets everybody take part in each release, so there is no amplification by sampling.",
        blind="Not measured: the stratified bound, which takes q as given.",
        participation=1.0,
    ),
    ZooSystem(
        "fixed-size-sample",
        "Draws exactly 20 users without replacement instead of tossing coins of q = 0.5: a canary that takes part puts "
        "another user out, so the release changes by up to twice the clip.",
        blind="Not measured: designed scores, which look at the canary's probes and not at what is missing elsewhere.",
        mechanism=Mechanism(q=0.5),
        fixed_size=True,
    ),
    ZooSystem(
        "fixed-size-sample-q-0.1",
        "Draws exactly 4 users without replacement instead of tossing coins of q = 0.1, and changes by as much.",
        blind="Not measured: designed scores, as for q = 0.5; and of the users that a canary can put out only 4 "
        "are there.",
        fixed_size=True,
    ),
    ZooSystem(
        "counted-twice-one-coin",
        "Adds each user's contribution twice when its coin says yes, which is the same as half the noise.",
        blind="Not measured: nothing that sees halved noise.",
        copies=2,
    ),
    ZooSystem(
        "counted-twice-two-coins",
        "Has each user twice, with a coin each: it takes part with probability 0.19, and twice with 0.01.",
        blind="Not measured: the stratified bound, which takes q as given.",
        coins=2,
    ),
    ZooSystem(
        "clip-per-record",
        "Clips each record's votes and adds them up, so a user with n records contributes up to n times the clip; "
        "the canary has 4 records that vote alike.",
        blind="Not measured: canaries with one record, for which both clips are the same.",
        concentrated=True,
        clipping="per record",
    ),
    ZooSystem(
        "clip-before-normalising",
        "Clips votes and then divides them by their sum, which undoes the clip: a user whose records vote alike "
        "contributes a norm of 0.447. (Votes that are not normalised but clipped last are no violation.)",
        blind="Not measured: canaries whose votes are spread over 100 entries or more, for their norm is below the"
        " clip anyway.",
        concentrated=True,
        clipping="before normalising",
    ),
    ZooSystem(
        "clip-on-base-only",
        "Takes the norm over the base's entries and forgets the probes, so votes for probes alone are not clipped.",
        blind="Not measured: canaries that vote for the base as well, for its norm then bounds all of their votes.",
        clipping="on base only",
    ),
    ZooSystem(
        "clip-per-label",
        "Normalises and clips each of four labels by itself, so a user with records in all of them contributes a "
        "norm of twice the clip.",
        blind="Not measured: canaries with records in one label, and scores that look at one label.",
        labels=_LABELS,
        clipping="per label",
    ),
    ZooSystem(
        "seeds-shared-by-hypotheses",
        "Draws the n-th run without the canary and the n-th run with it from one seed; each run by itself is honest, "
        "and the two together are not independent.",
        blind="Not measured: every bound, for each hypothesis has its honest law; only the check of independence "
        "can see it.",
        breaks="independence",
        seeds="by hypotheses",
    ),
    ZooSystem(
        "generator-restarted",
        f"Restarts its generator after {RESTART_AFTER} runs, so the same coins and noise come again and again: "
        "who learns the noise once has it for all runs, and counts of runs are no counts of independent events.",
        blind="Not measured: every bound, for its runs are not independent; it could refute honest claims and miss"
        " false ones.",
        breaks="independence",
        seeds="restarted",
    ),
)

ZOO: Final[Mapping[str, ZooSystem]] = MappingProxyType({system.name: system for system in _SYSTEMS})
"""The systems of the zoo by name: honest ones first."""
