"""Vet a bank before voting: does it hold entries that nobody would write, planted to make a user visible?

An attacker who shapes a bank plants entries that ordinary records do not vote for. Such entries differ from the rest of
the bank, whatever its subject and language; so each entry is compared with the bank's own distribution, and with public
text where there is some. Each measure is brought to one scale by what is beyond the reach of a few planted entries: the
80% and 90% quantiles of the bank. If the upper tail were exponential, the j-th largest of p entries would stand at
about log(p/(5j)) on that scale. A bank is called shaped where, for some measure and some j of 1, 2, 4, 8 and 16, the
j-th largest entry exceeds a multiple of that. The multiples were set on honest banks and judged on others; every
verdict states how many, and the upper confidence bound of its false-alarm rate.

"Nothing found" is not "not shaped": fluent texts about rare things pass. See ``docs/vetting.md``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.defend.characters import Characters
from canarybank.defend.nearness import closest, similarity_of_share, vote_margins
from canarybank.defend.perplexity import Likelihoods
from canarybank.errors import InputError
from canarybank.mechanism import Bank
from canarybank.mechanism.vectors import Vectors, check_dimensions, check_vectors, norms
from canarybank.score.counts import clopper_pearson
from canarybank.store import hash_json

__all__ = [
    "JUDGED_K",
    "LEVELS",
    "SHARES",
    "SMALLEST",
    "BankVerdict",
    "FalseAlarms",
    "Finding",
    "Measure",
    "MeasuredBank",
    "PublicText",
    "Screen",
    "Vetting",
    "inputs_name",
    "smallest_bank",
    "spread_out",
    "standardise",
    "vet",
]

Floats = NDArray[np.float64]

LEVELS = (1, 2, 4, 8, 16)
"""How many of a bank's largest values are looked at together."""
SHARES = (0.05, 0.1, 0.2, 0.35)
"""The shares of a bank that may be planted together: too many to be judged one by one."""
TAIL, SCALE_END = 0.2, 0.1
"""The shares of a bank above the quantiles that set the scale of a measure."""
SHARE = 0.05
"""An entry is isolated where it is far from this share of the bank."""
SMALLEST = 64
"""The fewest entries of a bank that can be vetted."""
JUDGED_K = 5
"""The votes of a record with which the thresholds were set and judged; otherwise the false-alarm rate is not known."""
CONFIDENCE = 0.95
_ROOM = 8.0
_SHORT = 16
_CLOSEST = 0.01


class Measure(StrEnum):
    """What is measured of each entry; in all of them a large value is suspicious."""

    SURPRISE = "surprise"
    """How surprising its characters are, given all entries but itself and its nearest ones."""
    ISOLATION = "isolation"
    """How far it is from the nearest twentieth of the bank."""
    CROWD = "crowd"
    """How close it is to its k - 1 nearest entries: a canary's records vote for k such entries and for nothing else."""
    COPIES = "copies"
    """How much of its text its k - 1 most similar entries share."""
    NO_VOTES = "no-votes"
    """How far it is from getting the vote of any public record."""
    PERPLEXITY = "perplexity"
    """How unlikely a small language model finds its characters. Shown only: it is in no threshold."""

    @property
    def description(self) -> str:
        """Return what the measure means, in a few words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Measure.SURPRISE: "written in characters or letter sequences that other entries do not use",
    Measure.ISOLATION: "far from the nearest twentieth of the bank",
    Measure.CROWD: "closer to their nearest entries than others are",
    Measure.COPIES: "nearly the same text as their nearest entries",
    Measure.NO_VOTES: "far from getting the vote of any public record",
    Measure.PERPLEXITY: "unlikely text for a small language model",
}
# The least spread between the two quantiles that sets a scale, so that equal entries do not make it vanish.
_LEAST_SPREAD = {
    Measure.SURPRISE: 0.05,
    Measure.ISOLATION: 0.005,
    Measure.CROWD: 0.05,
    Measure.COPIES: 0.02,
    Measure.NO_VOTES: 0.005,
    Measure.PERPLEXITY: 0.05,
}


@dataclass(frozen=True, eq=False)
class PublicText:
    """Public text of the kind that the users write, with its vectors by the bank's encoder."""

    texts: tuple[str, ...]
    vectors: Vectors

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        object.__setattr__(self, "vectors", _unit(self.vectors, len(self.texts), "public text"))


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How many of the honest banks on which the thresholds were judged were called shaped."""

    banks: int
    alarms: int

    @property
    def upper(self) -> float:
        """Return the upper 95% confidence bound (Clopper-Pearson) of the rate of false alarms on such banks."""
        return clopper_pearson(self.alarms, self.banks, 1 - CONFIDENCE)[1]

    def __str__(self) -> str:
        blamed = (
            f"{self.alarms} of {self.banks} other honest banks {'was' if self.alarms == 1 else 'were'} called shaped"
        )
        return (
            f"{blamed}, so the false-alarm rate is at most {self.upper:.1%} on banks like these (95% confidence, "
            "Clopper-Pearson)"
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What one measure says of a bank: the levels that were exceeded, and the entries beyond the lowest of them.

    ``shares`` are those of SHARES of which the whole is too far from the rest; only surprise looks for that.
    """

    measure: Measure
    levels: tuple[int, ...]
    entries: tuple[int, ...]
    shares: tuple[float, ...] = ()

    @property
    def alarms(self) -> bool:
        """Return whether the measure calls the bank shaped."""
        return bool(self.levels or self.shares)


@dataclass(frozen=True, eq=False)
class BankVerdict:
    """What vetting says of a bank.

    ``standard`` holds each measure of each entry on the common scale, and ``values`` as it was measured. ``scores`` are
    the largest over the measures of an entry's value as a share of what calls a bank shaped on account of one entry.
    ``flagged`` are the entries that call the bank shaped, the worst first. ``false_alarms`` is None where the check was
    not judged as it is used here.
    """

    size: int
    findings: tuple[Finding, ...]
    values: Mapping[Measure, Floats]
    standard: Mapping[Measure, Floats]
    scores: Floats
    false_alarms: FalseAlarms | None

    @property
    def is_shaped(self) -> bool:
        """Return whether some measure exceeds its threshold."""
        return any(finding.alarms for finding in self.findings)

    @cached_property
    def flagged(self) -> tuple[int, ...]:
        """Return the positions of the entries that call the bank shaped, the worst first."""
        found = {entry for finding in self.findings for entry in finding.entries}
        return tuple(sorted(found, key=lambda entry: (-self.scores[entry], entry)))

    def worst(self, count: int) -> tuple[int, ...]:
        """Return the positions of the entries with the highest scores, flagged ones first."""
        order = np.lexsort((np.arange(self.size), -self.scores))
        return (*self.flagged, *(int(i) for i in order if int(i) not in set(self.flagged)))[:count]

    @property
    def statement(self) -> str:
        """Return the verdict in words that name its false-alarm rate, or say that it is not known."""
        if not self.is_shaped:
            return (
                f"Nothing found: no entry of {self.size:,} stands out beyond what honest banks show. A bank can still "
                f"hold planted entries that read like the rest. {self.reliability}"
            )
        causes = ", ".join(str(finding.measure) for finding in self.findings if finding.alarms)
        count = len(self.flagged)
        entries = "1 entry stands" if count == 1 else f"{count:,} entries stand"
        return f"Shaped: {entries} out of {self.size:,} by {causes}. {self.reliability}"

    @property
    def reliability(self) -> str:
        """Return how often this check blames honest banks, as a sentence."""
        if self.false_alarms is None:
            return "How often this check blames an honest bank is not known with these settings."
        return f"Of this check: {self.false_alarms}."


@dataclass(frozen=True)
class Vetting:
    """The thresholds of a check, and the record of how it was judged.

    ``factors`` holds, for each measure that decides and each of LEVELS, the multiple of log(TAIL p / j) that the j-th
    largest entry may reach. ``spreads`` holds, for each of SHARES, how far the surprise of that share of the bank may
    be above the median: see ``spread_out``. ``judged`` holds the false alarms of each combination of inputs.
    """

    factors: Mapping[Measure, tuple[float, ...]]
    judged: Mapping[str, FalseAlarms]
    spreads: tuple[float, ...] = (float("inf"),) * len(SHARES)

    def __post_init__(self) -> None:
        for measure, factors in self.factors.items():
            if len(factors) != len(LEVELS) or not all(factor > 0 for factor in factors):
                raise InputError(
                    f"The measure {measure} has the factors {factors}; it needs {len(LEVELS)}, all above zero."
                )

    @classmethod
    def load(cls) -> Self:
        """Return the check that comes with canarybank."""
        record = json.loads((resources.files("canarybank.defend") / "data" / "vetting.json").read_text("utf-8"))
        return cls.from_record(record)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the check that a study recorded."""
        factors = {Measure(name): tuple(map(float, each)) for name, each in record["factors"].items()}
        judged = {name: FalseAlarms(each["banks"], each["alarms"]) for name, each in record["judged"].items()}
        return cls(factors, judged, tuple(map(float, record["spreads"])))

    @property
    def hash(self) -> str:
        """Return the sha256 of all that decides a verdict, beside the bank."""
        return hash_json([{**self.factors}, list(self.spreads)])

    def thresholds(self, measure: Measure, size: int) -> dict[int, float]:
        """Return the level that the j-th largest of ``size`` entries must exceed, by j; small banks have fewer j."""
        factors = zip(LEVELS, self.factors[measure], strict=True)
        return {j: factor * float(np.log(TAIL * size / j)) for j, factor in factors if TAIL * size / j >= _ROOM}

    def vet(
        self,
        texts: Sequence[str],
        vectors: ArrayLike,
        *,
        public: PublicText | None = None,
        likelihoods: Likelihoods | None = None,
        k: int = JUDGED_K,
    ) -> BankVerdict:
        """Judge a bank.

        Args:
            texts: The entries.
            vectors: Their vectors.
            public: Public text of the kind that users write.
            likelihoods: How likely a language model finds each entry; shown beside the verdict.
            k: How many entries a record votes for.
        """
        measured, size = MeasuredBank.of(texts, vectors, public, k), len(texts)
        values = dict(measured.values)
        if likelihoods is not None:
            values[Measure.PERPLEXITY] = _unlikely(likelihoods, measured.characters.lengths[:size])
        standard = {measure: standardise(each, measure) for measure, each in values.items()}
        deciding = [measure for measure in standard if measure in self.factors]
        findings = tuple(self._finding(measure, standard[measure], values[measure]) for measure in deciding)
        scores = np.max([standard[each] / self.thresholds(each, size)[1] for each in deciding], axis=0)
        alarms = self.judged[inputs_name(public=public is not None)] if k == JUDGED_K else None
        return BankVerdict(size, findings, values, standard, scores, alarms)

    def _finding(self, measure: Measure, standard: Floats, values: Floats) -> Finding:
        ordered = np.sort(standard)[::-1]
        lines = self.thresholds(measure, len(standard))
        exceeded = tuple(j for j, line in lines.items() if ordered[j - 1] > line)
        beyond, shares = standard > min((lines[j] for j in exceeded), default=float("inf")), tuple[float, ...]()
        if measure is Measure.SURPRISE:
            spread = spread_out(values)
            limits = dict(zip(SHARES, self.spreads, strict=True))
            shares = tuple(share for share in SHARES if np.quantile(spread, 1 - share) > limits[share])
            beyond |= spread > min((limits[share] for share in shares), default=float("inf"))
        order = np.argsort(-standard, kind="stable")
        return Finding(measure, exceeded, tuple(int(i) for i in order[beyond[order]]), shares)

    def barred(self, bank: Bank, *, public: PublicText | None = None, k: int = JUDGED_K) -> tuple[int, ...]:
        """Return the positions that a careful client does not vote for, ascending.

        These are the entries beyond the lowest threshold of any measure, whether or not the bank is called shaped:
        leaving out an honest entry costs little. Records have k votes, so k entries that are not reserved stay open: if
        more are beyond, those with the highest scores are barred.
        """
        if bank.texts is None:
            raise InputError("A bank without texts cannot be vetted; build it with Bank(vectors, texts).")
        verdict = self.vet(bank.texts, bank.vectors, public=public, k=k)
        named = np.array(self.barred_by(verdict), dtype=np.int64)
        others = named[~np.isin(named, bank.reserved)]
        spared = others[np.argsort(-verdict.scores[others], kind="stable")][max(0, len(bank.base) - k) :]
        return tuple(int(place) for place in np.setdiff1d(named, spared))

    def barred_by(self, verdict: BankVerdict) -> tuple[int, ...]:
        """Return the positions beyond the lowest threshold of any measure, ascending: see ``barred``."""
        beyond = np.zeros(verdict.size, dtype=bool)
        for measure in (finding.measure for finding in verdict.findings):
            beyond |= verdict.standard[measure] > min(self.thresholds(measure, verdict.size).values())
        beyond[list(verdict.flagged)] = True
        return tuple(int(i) for i in np.flatnonzero(beyond))

    def screen(self, bank: Bank, *, public: PublicText | None = None, k: int = JUDGED_K) -> "Screen":
        """Return what new texts must pass to stand in this bank unnoticed."""
        if bank.texts is None:
            raise InputError("A bank without texts cannot be vetted; build it with Bank(vectors, texts).")
        return Screen(self, bank, public, k)

    def accept(
        self, texts: Sequence[str], vectors: ArrayLike, *, bank: Bank, k: int = JUDGED_K, together: bool = True
    ) -> NDArray[np.bool_]:
        """Return which texts would pass if they were planted into a bank: see ``Screen.accept``.

        For more than one call on the same bank, keep ``screen(bank)``.
        """
        return self.screen(bank, k=k).accept(texts, vectors, together=together)


@dataclass(frozen=True, eq=False)
class Screen:
    """What new texts must pass to stand in one bank: measures of the bank are taken once."""

    vetting: Vetting
    bank: Bank
    public: PublicText | None
    k: int

    @cached_property
    def _body(self) -> "MeasuredBank":
        return MeasuredBank.of(self.bank.texts or (), self.bank.vectors, self.public, self.k)

    def accept(self, texts: Sequence[str], vectors: ArrayLike, *, together: bool = True) -> NDArray[np.bool_]:
        """Return which texts stay below the lowest threshold of every measure, so that any number of them passes.

        Args:
            texts: The texts.
            vectors: Their vectors.
            together: Whether all of them are planted together, so that they are each other's neighbours; otherwise
                each is judged as if it were planted alone, which suits a pool from which a few will be chosen.
        """
        if not len(texts):
            return np.zeros(0, dtype=bool)
        rows = _unit(vectors, len(texts), "text")
        check_dimensions(rows, self._body.vectors)
        found = self._body.measure_planted(texts, rows, together=together)
        passed = np.ones(len(texts), dtype=bool)
        for measure, values in found.items():
            line = min(self.vetting.thresholds(measure, self.bank.size).values())
            passed &= standardise(values, measure, self._body.values[measure]) <= line
        return passed


def vet(
    texts: Sequence[str],
    vectors: ArrayLike,
    public: PublicText | None = None,
    k: int = JUDGED_K,
    *,
    likelihoods: Likelihoods | None = None,
) -> BankVerdict:
    """Judge a bank by the check that comes with canarybank: see ``Vetting.vet``.

    Args:
        texts: The bank's entries.
        vectors: Their vectors, one a row, of any length.
        public: Public text of the kind that users write; with it, entries that nobody would vote for are found too.
        k: How many entries each record votes for.
        likelihoods: How likely a language model finds each entry, from ``measure_likelihoods``.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import nonces
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.flow import embedded_bank
        >>> encode, texts = HashingEncoder().encode, embedded_bank().texts[:300]
        >>> planted = [*texts, *nonces(5, np.random.default_rng(0))]
        >>> vet(texts, encode(texts)).is_shaped, sorted(vet(planted, encode(planted)).flagged)
        (False, [300, 301, 302, 303, 304])
    """
    return _shipped().vet(texts, vectors, public=public, k=k, likelihoods=likelihoods)


@lru_cache(1)
def _shipped() -> Vetting:
    return Vetting.load()


def spread_out(values: Floats) -> Floats:
    """Return how far each surprise is above the bank's median, as a multiple of the median less the 10% quantile.

    The lower half of a bank sets this scale, so that even a large planted share cannot hide by widening it.
    """
    low, middle = np.quantile(values, [0.1, 0.5])
    return np.asarray((values - middle) / max(float(middle - low), _LEAST_SPREAD[Measure.SURPRISE]))


def standardise(values: Floats, measure: Measure, body: Floats | None = None) -> Floats:
    """Return values on the scale of a bank: 0 at its 80% quantile, log 2 at its 90% quantile.

    On that scale an exponential tail has the density exp(-z), of weight 0.2.

    Args:
        values: What was measured.
        measure: The measure, which sets the least spread.
        body: The values of the whole bank; left out, ``values`` are.
    """
    start, end = np.quantile(values if body is None else body, [1 - TAIL, 1 - SCALE_END])
    spread = max(float(end - start), _LEAST_SPREAD[measure])
    return np.asarray((values - start) / spread * np.log(TAIL / SCALE_END))


@dataclass(frozen=True, eq=False)
class MeasuredBank:
    """A bank and its measures; ``usual`` is the surprise of its median entry."""

    texts: tuple[str, ...]
    vectors: Vectors
    public: PublicText | None
    k: int
    characters: Characters
    usual: float
    values: Mapping[Measure, Floats]

    @classmethod
    def of(cls, texts: Sequence[str], vectors: ArrayLike, public: PublicText | None, k: int) -> Self:
        """Measure every entry of a bank."""
        size = _require_size(len(texts), k)
        entries = _unit(vectors, size, "bank entry")
        if public is not None:
            check_dimensions(public.vectors, entries)
        positions, cosines = closest(entries, entries, 2 * _companions(k), np.arange(size))
        characters = Characters.of([*texts, *(public.texts if public else ())])
        bits = characters.surprise(np.column_stack([np.arange(size), positions]))
        usual, overlaps = float(np.median(bits)), characters.overlap(positions)
        made = cls(tuple(texts), entries, public, k, characters, usual, {})
        return replace(made, values=made._values(entries, bits, characters.lengths[:size], cosines, overlaps))

    def measure_planted(self, texts: Sequence[str], vectors: Vectors, *, together: bool) -> dict[Measure, Floats]:
        """Return the measures of texts that are planted into the bank, together or each alone."""
        count, own = len(texts), np.arange(len(texts))
        planted = vectors if together else vectors[:0]
        others = np.concatenate([planted, self.vectors])
        positions, cosines = closest(vectors, others, 2 * _companions(self.k), own if together else None)
        # Beside the texts only their nearest entries are taken apart; the whole bank was before.
        near, inverse = np.unique(positions, return_inverse=True)
        near, first = near[near >= len(planted)] - len(planted), int((near < len(planted)).sum())
        places = np.where(positions < len(planted), positions, count + inverse.reshape(positions.shape) - first)
        characters = Characters.of([*texts, *(self.texts[i] for i in near)])
        counted = (np.arange(characters.texts) < count) & together
        left_out = np.column_stack([own, places]) if together else places
        bits = characters.surprise(left_out, counted, self.characters)
        return self._values(vectors, bits, characters.lengths[:count], cosines, characters.overlap(places))

    def _values(
        self, vectors: Vectors, bits: Floats, lengths: NDArray[np.int64], cosines: Floats, overlaps: Floats
    ) -> dict[Measure, Floats]:
        values = {
            # A short text varies more, so it counts less: as if some usual characters stood beside it.
            Measure.SURPRISE: (bits - self.usual) * lengths / (lengths + _SHORT),
            Measure.ISOLATION: 1 - similarity_of_share(vectors, self.vectors, SHARE),
            Measure.CROWD: -np.log(np.maximum(1 - cosines[:, _companions(self.k) - 1], _CLOSEST)),
            Measure.COPIES: np.sort(overlaps, axis=1)[:, ::-1][:, _companions(self.k) - 1],
        }
        if self.public is not None:
            values[Measure.NO_VOTES] = -vote_margins(vectors, self.vectors, self.public.vectors, self.k)
        return values


def _companions(k: int) -> int:
    """Return how many entries beside itself a planted one is expected to stand with: k - 1, and one at least."""
    return max(1, k - 1)


def _unlikely(likelihoods: Likelihoods, lengths: NDArray[np.int64]) -> Floats:
    """Return the surprise of a character of each entry to a language model, as that to the bank's own model is taken.

    By character and not by token: random strings fall apart into many short tokens, none of which is very unlikely.
    """
    if len(likelihoods) != len(lengths):
        raise InputError(
            f"There are {len(lengths)} entries but the likelihoods of {len(likelihoods)}; give one for each."
        )
    nats = likelihoods.nats / lengths
    return np.asarray((nats - np.median(nats)) * lengths / (lengths + _SHORT))


def _unit(vectors: ArrayLike, count: int, what: str) -> Vectors:
    """Return vectors scaled to length one, one for each of ``count`` texts."""
    table = check_vectors(vectors, what)
    if len(table) != count:
        raise InputError(f"There are {count} texts but {len(table)} {what} vectors; give one vector for each text.")
    lengths = norms(table)
    if not lengths.all():
        raise InputError(f"The vector of {what} {int(np.argmin(lengths))} is zero, so it has no direction.")
    unit: Vectors = (table / lengths[:, None]).astype(np.float32)
    return unit


def smallest_bank(k: int) -> int:
    """Return the fewest entries that can be vetted: each is compared with twice as many as it should stand with.

    Args:
        k: How many entries each record votes for.

    Example:
        >>> smallest_bank(5), smallest_bank(40)
        (64, 79)
    """
    return max(SMALLEST, 2 * _companions(k) + 1)


def _require_size(size: int, k: int) -> int:
    if size < smallest_bank(k):
        raise InputError(
            f"A bank of {size} entries is too small to be vetted where k is {k}: an entry is compared with the others, "
            f"and that takes at least {smallest_bank(k)}."
        )
    return size


def inputs_name(*, public: bool) -> str:
    """Return the name under which the false alarms with these inputs are recorded."""
    return "bank+public" if public else "bank"
