"""Stand public people in for the private ones: their votes over a public bank, and what an evolution of it costs.

Everything here comes from what the configuration declares and from public files. The users that ``users.source`` names
are never opened.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.config import Config
from canarybank.config.loading import is_same_file
from canarybank.config.model import CohortsConfig, UsersConfig
from canarybank.errors import ConfigError
from canarybank.evolution import Candidate, EvolutionPlan, KeepTop, Voted
from canarybank.evolution.advice import (
    TESTED,
    Setting,
    StandIns,
    best_settings,
    covering_tests,
    predict_setting,
    spare_noise,
)
from canarybank.flow.audit import mechanism_of
from canarybank.flow.bank import GENERATED_SIZE, Candidates, bank_labels, bank_prompt, embedded_bank, gather_candidates
from canarybank.flow.evolution import plan_of, spending_mechanism
from canarybank.flow.generators import build_generator
from canarybank.flow.inputs import admit_users, cached_encoder
from canarybank.flow.machines import encode_rate
from canarybank.flow.planning import ANSWER_YIELD
from canarybank.generate import Request, bank_plan
from canarybank.mechanism import Mechanism, epsilon
from canarybank.progress import Progress
from canarybank.run.commitment import Record
from canarybank.seeds import stream
from canarybank.store import StageCache

__all__ = ["BUILT_IN", "Assumption", "GeneratorSpeed", "Norms", "Option", "PublicScene"]

BUILT_IN = "chitchat"
DEFAULT_RECORDS = 64
FEWEST_STAND_INS, FEW_STAND_INS, MOST_STAND_INS = 20, 200, 1000
SAMPLED = 32
"""The requests whose tokens are counted, of each kind."""
MEASURED_ANSWERS = 8
LETTERS_A_TOKEN = 4
QUANTILES = (0.05, 0.5, 0.95, 1.0)


class Assumption(Record):
    """Something that the advice rests on, and where it comes from."""

    what: str
    """What is assumed."""
    source: str
    """Where it comes from: declared, computed, measured or assumed, and by whom or on what."""


class Option(Record):
    """One choice of bank size and mechanism, what is expected of it, and what it costs over all rounds."""

    bank: int
    """The entries of the bank."""
    k: int
    """The entries that each record votes for."""
    clip: float
    """The norm that votes are clipped to."""
    q: float
    """The probability that a person takes part in a round."""
    sigma: float
    """The noise multiplier."""
    top: int
    """The most entries that stay after the first round."""
    kept: float
    """The entries that stay then, on average."""
    keeper: str
    """The keeper that all this is predicted for."""
    survival: float
    """The expected share of the true top that stays after the first round."""
    error: float
    """The standard error of the survival where it is simulated; 0 where it is computed."""
    chance: float
    """The same if entries were kept at random."""
    clipped: float
    """The share of stand-ins whose votes the clip scales down."""
    spare_noise: float
    """How many times larger the noise is than with a clip at the largest norm of a stand-in."""
    voters: float
    """The people who take part in a round, on average."""
    requests: int
    """The requests to the generator in all rounds, about; those of a generated first bank included."""
    most_requests: int
    """The same where the keeper keeps one candidate in every round, and all others are generated."""
    tokens: int
    """The tokens of the requests: prompts, and answers as long as they may be."""
    most_tokens: int
    """The tokens of ``most_requests``."""
    cost: float | None
    """What the tokens cost; null without prices."""
    most_cost: float | None
    """What ``most_tokens`` cost; null without prices."""
    voting_seconds: float
    """Encoding everybody's records once and routing those of the participants of all rounds here, about."""
    generating_seconds: float | None
    """The generator's time, about; null where its speed is not known."""


class Norms(Record):
    """The L2 norms of the stand-ins' votes before they are clipped."""

    low: float
    """The norm that 5% of the stand-ins do not exceed."""
    median: float
    """The norm that half of them do not exceed."""
    high: float
    """The norm that 95% of them do not exceed."""
    largest: float
    """The largest norm."""


@dataclass(frozen=True, slots=True)
class GeneratorSpeed:
    """How fast the generator is, where that is known: in answer tokens or in requests a second."""

    tokens: float | None = None
    requests: float | None = None

    def seconds(self, requests: float, tokens: float) -> float | None:
        """Return the time of so many requests with so many tokens in their answers."""
        if self.requests is not None:
            return requests / self.requests
        return None if self.tokens is None else tokens / self.tokens

    @property
    def assumption(self) -> tuple[tuple[str, str], ...]:
        """Return what is assumed of the speed, and where that comes from; nothing where it is not known."""
        if self.requests is not None:
            return ((f"the generator answers {self.requests:.3g} requests a second", "measured on public requests"),)
        if self.tokens is not None:
            return ((f"the generator writes {self.tokens:,.0f} tokens a second", "declared: --tokens-per-second"),)
        return ()


@dataclass(frozen=True, eq=False)
class PublicScene:
    """What advice is made from: declared numbers, public stand-ins with vectors, a public bank, and rates."""

    config: Config
    people: int
    records: int
    vectors: NDArray[np.float32]
    owners: NDArray[np.int64]
    texts: Sequence[str]
    bank: Candidates
    bank_vectors: NDArray[np.float32]
    encode_rate: float
    sources: tuple[str, str]
    """What the stand-ins and the bank are, in words."""
    notes: tuple[str, ...]
    _votes: dict[tuple[int, int], tuple[StandIns, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, stand_ins: str, progress: Progress) -> "PublicScene":
        """Read the stand-ins and the bank, and encode both."""
        people, records = config.evolve.population, config.users.cap or DEFAULT_RECORDS
        if people is None:
            raise ConfigError(
                "Say how many people there are, a number that you declare public: set evolve.population (--people)."
            )
        if config.mechanism.share < 1:
            raise ConfigError("Advice does not cover secret shares yet: set mechanism.share to 1.")
        generated = config.bank.source == "generate"
        if generated:
            bank_labels(config.bank, config.users)  # refuses, before anything is read, a bank that nobody could write
        cache = StageCache()
        users = admit_users(_public(config, stand_ins, records), CohortsConfig(), cache, progress).users
        if len(users) < FEWEST_STAND_INS:
            raise ConfigError(
                f"Only {len(users)} of the stand-ins {stand_ins!r} have {records} records, and advice needs "
                f"{FEWEST_STAND_INS} at least. Name a larger file of public people by --stand-ins, or set users.cap "
                "(--records) lower."
            )
        if generated:
            made = embedded_bank()
            bank, said = Candidates(made.texts, labels=made.labels), "the embedded bank"
        else:
            whole_bank = config.bank.model_copy(update={"size": None})
            bank, said = gather_candidates(whole_bank, config.users, None, cache), f"the bank {config.bank.source}"
        encoder = cached_encoder(config.encoder, progress)
        notes = []
        if generated:
            notes.append(
                "The bank is not written yet: the embedded bank stands in for it. Name one that is written for people "
                "like these by bank.source, for closer figures."
            )
        if (config.bank.size or (GENERATED_SIZE if generated else 0)) > len(bank.texts):
            notes.append(
                f"Banks above {len(bank.texts):,} entries were not looked at: {said} has no more. Survival falls as a "
                "bank grows."
            )
        if len(users) < min(FEW_STAND_INS, people):
            notes.append(
                f"{len(users)} stand-ins are few for {people:,} people: the predicted survival may be too high, by up "
                f"to 0.13 in a study with 50 of them. {FEW_STAND_INS} or more are better."
            )
        texts = users.require_texts()
        return cls(
            config=config,
            people=people,
            records=records,
            vectors=encoder.encode(texts),
            owners=users.owners,
            texts=texts,
            bank=bank,
            bank_vectors=encoder.encode(bank.texts),
            encode_rate=encode_rate(encoder.encoder.encode, texts),
            sources=(stand_ins, said),
            notes=tuple(notes),
        )

    @property
    def stand_in_people(self) -> int:
        """Return how many stand-ins there are."""
        return int(self.owners[-1]) + 1

    def settings(self, size: int, k: int, sigmas: dict[float, float]) -> tuple[Setting, ...]:
        """Return a bank size and k at each q with its sigma, each with its best clip."""
        base = mechanism_of(self.config)
        mechanisms = [
            Mechanism(k=k, sigma=sigma, q=q, delta=base.delta, entry_cap=base.entry_cap) for q, sigma in sigmas.items()
        ]
        return best_settings(self.votes(size, k), mechanisms, people=self.people, **self._rule(size, base))

    @cached_property
    def configured(self) -> Setting:
        """Return the bank and mechanism as configured; a larger bank than the public one is cut to that."""
        size = min(self.config.bank.size or len(self.bank.texts), len(self.bank.texts))
        mechanism = spending_mechanism(self.config)
        votes = self.votes(size, mechanism.k)
        return predict_setting(votes, mechanism, people=self.people, **self._rule(size, mechanism))

    def _rule(self, size: int, mechanism: Mechanism) -> dict[str, Any]:
        """Return who decides what stays of so many entries, what it sees of them, and how many may stay."""
        plan, places, labels = self._plan(mechanism), self._entries(size), self.bank.labels
        return {
            "top": plan.sizes(size, 0)[0],
            "keeper": plan.keeper,
            "vectors": self.bank_vectors[places],
            "labels": () if labels is None else tuple(labels[i] for i in places),
        }

    def _entries(self, size: int) -> NDArray[np.int64]:
        """Return which entries of the bank stand for one of this size, drawn by seed."""
        return np.sort(stream(self.config.bank.seed, "tune", "bank").permutation(len(self.bank.texts))[:size])

    def votes(self, size: int, k: int) -> StandIns:
        """Return the stand-ins' votes over so many entries of the bank, drawn by seed."""
        return self._routed(size, k)[0]

    def _routed(self, size: int, k: int) -> tuple[StandIns, float]:
        """Return the stand-ins' votes, and how many records a second were routed for them."""
        if (size, k) not in self._votes:
            vectors = self.bank_vectors[self._entries(size)]
            began = time.perf_counter()
            made = StandIns.of(self.vectors, self.owners, vectors, k)
            self._votes[size, k] = made, len(self.owners) / max(time.perf_counter() - began, 1e-9)
        return self._votes[size, k]

    def norms(self, setting: Setting) -> Norms:
        """Return the norms of the stand-ins' votes over a setting's bank at its k."""
        low, median, high, largest = map(self.votes(setting.bank, setting.mechanism.k).norm_quantile, QUANTILES)
        return Norms(low=low, median=median, high=high, largest=largest)

    def expected(self, setting: Setting, speed: GeneratorSpeed) -> dict[str, Any]:
        """Return what is stated of any setting."""
        rounds, mechanism = self.config.evolve.rounds, setting.mechanism
        return {
            "people": self.people,
            "records": self.records,
            "stand_ins": self.sources[0],
            "stand_in_people": self.stand_in_people,
            "rounds": rounds,
            "delta": mechanism.delta,
            "epsilon": epsilon(mechanism, rounds),
            "norms": self.norms(setting),
            "assumptions": self.assumptions(speed, setting),
            **self._tested(setting),
        }

    def option(self, setting: Setting, speed: GeneratorSpeed) -> Option:
        """Return a setting with what it costs."""
        mechanism, rounds = setting.mechanism, self.config.evolve.rounds
        asked = self._asked(setting)
        (requests, prompts, answers), (most_requests, most_prompts, most_answers) = (
            (sum(each[n] for each in asked), *(sum(each[n] * each[size] for each in asked) for size in (2, 3)))
            for n in (0, 1)
        )
        section = self.config.generator
        priced = section.prompt_price or section.completion_price

        def cost(prompts: float, answers: float) -> float | None:
            return (prompts * section.prompt_price + answers * section.completion_price) / 1e6 if priced else None

        votes, rate = self._routed(setting.bank, mechanism.k)
        voting = self.people * self.records * (1 / self.encode_rate + mechanism.q * rounds / rate)
        return Option(
            bank=setting.bank,
            k=mechanism.k,
            clip=mechanism.clip,
            q=mechanism.q,
            sigma=mechanism.sigma,
            top=setting.top,
            kept=setting.top * setting.kept_share,
            keeper=setting.keeper,
            survival=setting.survival,
            error=setting.error,
            chance=setting.chance,
            clipped=setting.clipped,
            spare_noise=spare_noise(votes.norms, mechanism.clip),
            voters=mechanism.q * self.people,
            requests=round(requests),
            most_requests=round(most_requests),
            tokens=round(prompts + answers),
            most_tokens=round(most_prompts + most_answers),
            cost=cost(prompts, answers),
            most_cost=cost(most_prompts, most_answers),
            voting_seconds=voting,
            generating_seconds=speed.seconds(requests, answers),
        )

    def speed(self, tokens: float | None, *, measure: bool = False) -> GeneratorSpeed:
        """Return the generator's speed: as given, or measured on a few public requests where that is wanted."""
        if tokens is not None or not measure:
            return GeneratorSpeed(tokens=tokens)
        generator = build_generator(self.config)
        if generator is None:
            raise ConfigError("No generator is named whose speed could be measured; set generator.kind.")
        sample = next(requests for _, _, requests in self.requests(self.configured))[: MEASURED_ANSWERS + 1]
        list(generator.generate(sample[:1]))  # so that loading a model does not count
        began = time.perf_counter()
        answered = len(list(generator.generate(sample[1:])))
        return GeneratorSpeed(requests=answered / max(time.perf_counter() - began, 1e-9))

    def requests(self, setting: Setting) -> Iterator[tuple[float, int, list[Request]]]:
        """Yield for the first bank and each round how many texts are wanted, about and at most, and some requests.

        Banks have the sizes of the plan, so more texts are wanted where a keeper keeps fewer than it may: as many
        fewer in each round as in the first, about, and all but one of them at most. The keeper ``top`` keeps all that
        it may. Who was voted for is not known: the first entries stand for those that stay.
        """
        size, bank = setting.bank, self.config.bank
        if bank.source == "generate":
            prompt, examples = bank_prompt(bank)
            made = bank_plan(
                size,
                bank_labels(bank, self.config.users),
                prompt=prompt,
                seed=bank.seed,
                examples=examples,
                shots=bank.shots,
                tries=bank.tries,
            )
            yield size, size, list(made.requests()[:SAMPLED])
        plan, labels = self._plan(setting.mechanism), self.bank.labels or ("",) * len(self.bank.texts)
        pool = [
            Candidate(f"c{i}", text, label) for i, (text, label) in enumerate(zip(self.bank.texts, labels, strict=True))
        ]
        for number in range(self.config.evolve.rounds):
            kept, new = plan.sizes(size, 0, number)
            places = [i % len(pool) for i in range(size)]
            voted = Voted(
                number,
                tuple(pool[i] for i in places),
                np.arange(size, 0, -1, dtype=np.float64),
                tuple(range(kept)),
                new,
                self.config.evolve.seed,
                vectors=self.bank_vectors[places],
                noise=setting.mechanism.noise,
                carry=plan.carry,
            )
            slots = np.linspace(0, new - 1, min(SAMPLED, new)).astype(int)
            missing = min(kept - 1, kept * (1 - setting.kept_share)) * plan.carry
            most_missing = 0 if plan.keeper == KeepTop() else (kept - 1) * plan.carry
            yield new + missing, new + most_missing, [plan.feedback(voted, int(slot), 0).request for slot in slots]
            size = plan.size_after(size, 0, number)

    def _asked(self, setting: Setting) -> list[tuple[float, float, float, float]]:
        """Return for the first bank and each round: requests, about and where one entry stays, and their tokens each.

        Those are the tokens of a prompt, and of an answer at most.
        """
        found = []
        for wanted, most, sample in self.requests(setting):
            letters = sum(len(each.prompt) + len(each.system or "") for each in sample)
            answer = sum(each.tokens for each in sample)
            requests, most_requests = wanted / ANSWER_YIELD, most / ANSWER_YIELD
            found.append((requests, most_requests, letters / LETTERS_A_TOKEN / len(sample), answer / len(sample)))
        return found

    def _plan(self, mechanism: Mechanism) -> EvolutionPlan:
        return plan_of(self.config.evolve, mechanism, self.config.bank)

    def _tested(self, setting: Setting) -> dict[str, Any]:
        """Return how far off predictions for so many people from so many stand-ins were in tests, and say it."""
        people, own = self.people, self.stand_in_people
        found = covering_tests(people, own)
        if found:
            tests = " and with ".join(each.range for each in found)
            said = f"within {found[0].error:g} of simulated releases over other people in tests with {tests}"
        else:
            every = "; ".join(f"{each.error:g} with {each.range}" for each in TESTED)
            said = f"not tested for {people:,} people with {own:,} stand-ins; the largest errors in tests were {every}"
        said += ", for the keeper top with a share of 0.05"
        if setting.error or setting.keeper != "top":
            said = (
                f"simulated with the keeper {setting.keeper} on the stand-ins' votes, standard error "
                f"{setting.error:.2f}. How far other people differ was tested for the keeper top alone: {said}"
            )
        return {"tested_error": found[0].error if found else None, "tested": said}

    def assumptions(self, speed: GeneratorSpeed, setting: Setting) -> tuple[Assumption, ...]:
        """Return what the figures rest on."""
        evolve, rows = self.config.evolve, []
        if setting.keeper == "top":
            predicted = (
                "noisy votes are Gaussian, and the cut between kept and dropped is the same in every draw",
                f"computed for the keeper top; {self._tested(setting)['tested']}; tools/tune_study.py",
            )
        else:
            predicted = (
                f"the keeper {setting.keeper} keeps the same share of what may stay in every round",
                "simulated for the first round: seeded releases over the stand-ins' votes",
            )
        rows += [
            (f"{self.people:,} people", "declared: evolve.population"),
            (
                f"each has {self.records:,} records that vote",
                "declared: users.cap" if self.config.users.cap else "assumed: the usual cap",
            ),
            (
                "they vote as the stand-ins do, whose votes are scaled up where there are fewer of them",
                f"public data: {self.stand_in_people:,} people of {self.sources[0]}",
            ),
            (
                "the first bank is like the public one; later banks are not predicted",
                f"public data: entries of {self.sources[1]}, drawn by seed",
            ),
            (
                "the true top is what everybody's unclipped votes choose, as many entries as may stay",
                f"declared: evolve.share and evolve.keep; the keeper is {evolve.keeper}",
            ),
            predicted,
            (
                "coins of q are independent, noise is Gaussian, neighbours add or remove one user",
                "computed: exact epsilon of all rounds, privacy loss distribution",
            ),
            (
                f"{ANSWER_YIELD:.0%} of answers pass, a token is {LETTERS_A_TOKEN} letters, answers have full length",
                "assumed, as `canarybank plan` does; prompts are counted on requests of the configured feedback",
            ),
            (
                "records are encoded once and routed in every round, on this machine",
                f"measured here on {len(self.owners):,} public records",
            ),
        ]
        return tuple(Assumption(what=what, source=source) for what, source in (*rows, *speed.assumption))


def _public(config: Config, stand_ins: str, records: int) -> UsersConfig:
    """Return how the stand-ins are read, and refuse the private users' own file."""
    asked: dict[str, Any] = {"source": stand_ins, "minimum": records, "cap": records, "limit": MOST_STAND_INS}
    if stand_ins == BUILT_IN:
        return UsersConfig(minimum_words=config.users.minimum_words, **asked)
    if config.users.source != BUILT_IN and is_same_file(config.users.source, stand_ins):
        raise ConfigError(
            f"The stand-ins {stand_ins!r} are the file of users itself, and advice is made from public people alone. "
            "Name a file of public people, or leave --stand-ins out for the built-in users."
        )
    return config.users.model_copy(
        update={"source": stand_ins, "format": None, "maximum": None, "strict": None, **asked}
    )
