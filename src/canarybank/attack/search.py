"""Search for the strongest attack: a canary and its probes, made together against the measured background.

A canary whose records all vote for the same k probes contributes as much as the clip lets any user contribute. If
nobody else votes for these probes, it spends the mechanism's whole epsilon. So the search looks for k texts that an
encoder puts close together and far from every user. It measures families of texts on auxiliary users, takes the
quietest groups, and plants decoys at the other reserved positions: texts between the group and the users, for which
stray records vote instead. Where a probe still hears too much, it is exchanged. Candidates are compared by the exact
epsilon of their frozen score.

Only public things and the auxiliary users are looked at. These are split by seed: one part for the search, one held
out from it, on which the winner is chosen among the search's best and the design of ``nonce-mueff``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.attack.attacks import NONCE_MUEFF
from canarybank.attack.background import background, choose_decoys, least_alike, margin, nobody_elses
from canarybank.attack.canary import Canary, CanaryKind
from canarybank.attack.contribution import canary_contribution
from canarybank.attack.covariance import require_auxiliary
from canarybank.attack.design import POOL_SIZE, design
from canarybank.attack.families import FAMILIES, Family, Group, chosen_families
from canarybank.attack.findings import LEVEL, RESOLUTION, SearchFacts, predicted_epsilon
from canarybank.attack.nonce import Encode, nonce_canary, nonce_pool
from canarybank.attack.pool import Pool
from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.score import LinearScore, Moments, RoundLaw, quick_epsilon, supremum
from canarybank.seeds import stream
from canarybank.users import Auxiliary

__all__ = ["SEARCH_VERSION", "Accept", "search", "searched_texts", "wanted_probes"]

SEARCH_VERSION = 4
"""Changed whenever the same search finds something else than before, so that nothing older is taken from a cache."""

Vectors = NDArray[np.float32]
Accept = Callable[[Sequence[str], Vectors], NDArray[np.bool_]]
"""Say which of some texts, planted together, would pass: called with the texts and their vectors."""

GROUPS, TOKEN_GROUPS = 24, 384
"""How many groups a family writes; the encoder's own vocabulary is the largest family by far."""
SHORTLIST, OF_A_FAMILY, FINALISTS = 6, 3, 4
"""How many groups become candidates, how many of one family, and how many of them the held-out users judge."""
LEAST_GROUP = 6
"""A group has at least so many texts: its probes, and what the canary's records are made of."""
DECOYS = 192
"""How many decoys are written for each of them to choose from."""
PUBLIC, JOINED = 0.75, 0.85
"""The share of decoys that hold public text, the others being texts that users vote for; and that hold the core too."""
SPREAD, REPEATS = 512, (1, 2, 4, 8)
"""Behind a secret share, how many records are written to choose from, and how often each holds the probe's text."""
EXCHANGES = 40
"""How many exchanges of a probe for a record are tried at most, where a candidate falls short."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A canary and what to plant for it, in the order of places: first its probes, then decoys."""

    family: str
    canary: Canary
    vectors: Vectors
    texts: tuple[str, ...]
    probes: int
    """How many of the texts the canary's records are to vote for."""

    def planted(self, bank: Bank) -> Bank:
        """Return the bank with these texts at its first reserved positions."""
        return bank.with_probes(self.vectors, None if bank.texts is None else self.texts)


@dataclass(frozen=True, eq=False)
class Judged:
    """How a candidate does on some users."""

    candidate: Candidate
    score: LinearScore
    votes: csr_array
    """What each of the users contributes on the inspected positions."""
    law: RoundLaw
    epsilon: float
    margin: float

    @property
    def order(self) -> tuple[float, float]:
        """Order by epsilon, the largest first, and among almost equal ones by the margin."""
        return -float(np.floor(self.epsilon / RESOLUTION)), -self.margin


@dataclass(frozen=True, eq=False)
class Scene:
    """What candidates are judged in: the bank, the mechanism, and the auxiliary users in their two parts."""

    bank: Bank
    mechanism: Mechanism
    eligible: int
    places: tuple[int, ...]
    searched: Routed[Auxiliary]
    held_out: Routed[Auxiliary]

    @cached_property
    def limit(self) -> float:
        """Return the epsilon of a perfect attack, which no other exceeds."""
        return supremum(RoundLaw.perfect(self.mechanism), self.mechanism.delta).interval.upper

    def contributions(self, candidate: Candidate, part: Routed[Auxiliary]) -> csr_array:
        """Return what the users of a part contribute on a candidate's probes and decoys."""
        return part.contributions(candidate.planted(self.bank), self.mechanism)[:, self.inspected(candidate)]

    def inspected(self, candidate: Candidate) -> NDArray[np.int64]:
        """Return where a candidate's probes and decoys stand."""
        return np.array(self.places[: len(candidate.vectors)], dtype=np.int64)

    def judge(self, candidate: Candidate, *, held_out: bool) -> Judged:
        """Return how a candidate, its score frozen on the search's part, does on that part or on the one held out.

        The users are repeated in turn until they are as many as are eligible.
        """
        mechanism = self.mechanism
        table = RouteTable.build(candidate.canary.vectors, self.bank, mechanism.k)
        own = canary_contribution(table, candidate.planted(self.bank), mechanism)[self.inspected(candidate)]
        votes = self.contributions(candidate, self.searched)
        score = LinearScore(own, Moments.estimate(votes, mechanism, self.eligible))
        part = self.held_out if held_out else self.searched
        if held_out:
            votes = self.contributions(candidate, part)
        law = RoundLaw.of(score, votes, own, mechanism).repeated(self.eligible)
        probes, decoys = np.split(candidate.vectors, [candidate.probes])
        away = margin(part.table, probes, decoys, mechanism.k)
        return Judged(candidate, score, votes, law, quick_epsilon(law, mechanism.delta), away)


def search(
    bank: Bank,
    routed: Routed[Auxiliary],
    mechanism: Mechanism,
    *,
    eligible: int,
    encode: Encode,
    records: int,
    seed: int,
    index: int = 0,
    probes: int | None = None,
    vocabulary: Sequence[str] = (),
    families: Sequence[str] | None = None,
    accept: Accept | None = None,
    name: str = "searched",
) -> tuple[Canary, Pool]:
    """Return the strongest canary and probes that the search finds, from public things and the auxiliary users alone.

    The pool holds the probes and decoys in the order of their places, all to be planted; its ``search`` says what was
    found.

    Args:
        bank: The unchanged bank, with the positions for probes reserved.
        routed: The auxiliary users, routed over the base of that bank.
        mechanism: The parameters of the release.
        eligible: How many users other than the canary are eligible; the auxiliary users are repeated to stand for them.
        encode: The encoder.
        records: How many records the canary has.
        seed: The root of what is random.
        index: The number of the canary; another one gets other texts.
        probes: How many of the reserved positions are this canary's, the first ones; left out, all.
        vocabulary: The encoder's own tokens, as texts; without it that family is skipped.
        families: The names of the families of texts to search; left out, all, and the design of ``nonce-mueff`` too.
        accept: Says which texts may be planted; left out, all.
        name: The attack's name, which canaries are called after.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> people = Users.from_vectors(rng.normal(size=(8, 3, 4)))
        >>> routed = Routed.build(Auxiliary(people), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> from canarybank.attack import simulated_nonces
        >>> encode = simulated_nonces(bank.vectors, 1)
        >>> options = {"eligible": 8, "encode": encode, "records": 3, "seed": 0, "families": ["greek"]}
        >>> canary, pool = search(bank, routed, mechanism, **options)
        >>> len(pool) <= 3
        True
    """
    require_auxiliary(routed)
    places = bank.reserved[:probes]
    if len(places) < mechanism.k:
        raise InputError(
            f"A search plants at least k = {mechanism.k} probes, and {len(places)} positions are reserved for them; "
            "reserve more."
        )
    scene = Scene(bank, mechanism, eligible, places, *_halves(routed, seed))
    writer = _Writer(scene, encode, records, tuple(vocabulary), accept, seed, index, name)
    ranked = sorted(
        (scene.judge(each, held_out=False) for each in writer.candidates(chosen_families(families))),
        key=lambda judged: judged.order,
    )
    whole = mechanism.share == 1
    finalists = [writer.exchanged(judged) if whole else judged.candidate for judged in ranked[:FINALISTS]]
    if accept is None and families is None and whole:
        finalists.append(writer.nonces())
    if not finalists:
        raise InputError(
            "No text of these families may be planted: none passes beside this bank. Choose other families, or accept "
            "more; in an audit, leave out bank.vet or this attack."
        )
    found = min((scene.judge(each, held_out=True) for each in finalists), key=lambda judged: judged.order)
    facts = _facts(scene, found, writer, stream(seed, "search", "prediction", index))
    best = found.candidate
    return best.canary, Pool(best.vectors, best.texts, search=facts)


def wanted_probes(mechanism: Mechanism, places: int) -> tuple[int, int]:
    """Return how many groups of probes a canary is to vote for, and how many probes each has, for so many places.

    One group of k is enough, for 1/k on each probe has more than norm clip. A cap c on what one entry gets asks for
    (clip / c)² probes, in several groups over which the records are spread. Where users vote within a secret share f of
    the bank, few probes do best, about 1/(2f), which all records vote for first; their other votes are spread so thinly
    that the clip hardly counts them (``canarybank.defend.core_epsilon``).
    """
    k, cap = mechanism.k, mechanism.entry_cap
    each = k if mechanism.share == 1 else max(1, min(k - 1, round(0.5 / mechanism.share)))
    asked = 1 if cap is None else math.ceil(math.ceil((mechanism.clip / cap) ** 2 - 1e-9) / each)
    return max(1, min(asked, places // each)), each


def searched_texts(k: int, *, with_vocabulary: bool) -> int:
    """Return about how many texts a search encodes: cores, the groups and decoys of the shortlist, and nonces.

    Args:
        k: How many entries a record votes for.
        with_vocabulary: Whether the encoder's own tokens are searched too.

    Example:
        >>> searched_texts(5, with_vocabulary=False) < searched_texts(5, with_vocabulary=True)
        True
    """
    cores = GROUPS * (len(FAMILIES) - 1) + TOKEN_GROUPS * with_vocabulary
    return cores + SHORTLIST * (2 * k + DECOYS) + 2 * POOL_SIZE


def _halves(routed: Routed[Auxiliary], seed: int) -> tuple[Routed[Auxiliary], Routed[Auxiliary]]:
    """Return the auxiliary users in two halves, drawn by seed; one user alone is both."""
    if len(routed) == 1:
        return routed, routed
    order, half = stream(seed, "search", "split").permutation(len(routed)), (len(routed) + 1) // 2
    users, table = routed.cohort.users, routed.table

    def part(chosen: NDArray[np.int64]) -> Routed[Auxiliary]:
        rows = np.flatnonzero(np.isin(users.owners, chosen))
        own = RouteTable(table.records[rows], table.bank, table.positions[rows], table.distances[rows])
        return Routed(Auxiliary(users.take([int(each) for each in chosen])), own)

    return part(np.sort(order[:half])), part(np.sort(order[half:]))


def _facts(scene: Scene, found: Judged, writer: "_Writer", rng: np.random.Generator) -> SearchFacts:
    """Return what is to be said of the winner, by the users held out from the search.

    Under a secret share it has no figures: those that are known here are of votes over the whole bank.
    """
    mechanism, best, users = scene.mechanism, found.candidate, scene.held_out.cohort.users
    weights, own = found.score.project(found.votes), best.probes
    # A share of somebody's records that votes for the probes adds as much of their mean weight to the score.
    shares = writer.shares if len(writer.shares) else 1.0 / users.counts
    reached, expected = None, None
    if mechanism.share == 1:
        reached = min(supremum(found.law, mechanism.delta).point, scene.limit)
        expected = predicted_epsilon(
            found.law,
            weights,
            shares * float(np.mean(found.score.weights[:own])),
            eligible=scene.eligible,
            delta=mechanism.delta,
            limit=scene.limit,
            rng=rng,
        )
    routes = scene.held_out.table.swap(best.planted(scene.bank))[:, : mechanism.k]
    voting = np.isin(routes, scene.places[:own]).any(axis=1)
    spread = mechanism.q * (1.0 - mechanism.q) * float(found.law.weights @ found.law.weights)
    return SearchFacts(
        family=best.family,
        examples=(*best.texts[:2], *best.texts[own : own + 1]),
        probes=own,
        decoys=len(best.texts) - own,
        votes=tuple(int((routes == place).sum()) for place in scene.places[:own]),
        voters=len(np.unique(users.owners[voting])),
        users=0 if scene.held_out is scene.searched else len(users),
        background=spread / (spread + found.law.noise**2) if spread else 0.0,
        concentration=min(1.0, float(np.linalg.norm(found.score.canary)) / mechanism.clip),
        epsilon=reached,
        expected=expected,
        level=LEVEL,
        limit=scene.limit,
        candidates=len(writer.tried),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """A group as a part of a candidate."""

    family: str
    probes: tuple[str, ...]
    probe_vectors: Vectors
    records: tuple[str, ...]
    record_vectors: Vectors


@dataclass(frozen=True, eq=False)
class _Writer:
    """Write candidates: screen the families' groups, give the quietest ones decoys, exchange what hears too much."""

    scene: Scene
    encode: Encode
    records: int
    vocabulary: tuple[str, ...]
    accept: Accept | None
    seed: int
    index: int
    name: str
    tried: set[str] = field(default_factory=set)
    """The texts that were encoded."""
    heard: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Return the shares of users' records that vote for one of the quietest quarter of texts."""
        return self.heard[0]

    def candidates(self, families: Sequence[Family]) -> Iterator[Candidate]:
        """Yield the quietest groups as candidates, with decoys where these help."""
        written = [(family, group) for family in families for group in self._groups(family)]
        if not written:
            raise InputError("None of the chosen families wrote a text; choose other families.")
        vectors = self._vectors([group[0] for _, group in written])
        order = self._quietest(vectors)
        quiet = vectors[order[: len(order) // 4 + 1]]
        self.heard.append(background(self.scene.searched, quiet, self.scene.mechanism.k).shares)
        loud, taken = [written[place][1][0] for place in order[-(len(order) // 4 + 1) :]], dict[str, int]()
        number, parts = self.wanted[0], list[_Part]()
        for place in order:
            family, group = written[place]
            if taken.get(family.name, 0) == OF_A_FAMILY * number or (part := self._part(family, group, parts)) is None:
                continue
            parts.append(part)
            taken[family.name] = taken.get(family.name, 0) + 1
            if len(parts) == number:
                yield self._joined(parts, loud, stream(self.seed, "search", "decoys", self.index, place))
                parts = []
            if sum(taken.values()) >= max(SHORTLIST, 2 * number):
                return
        if parts:
            yield self._joined(parts, loud, stream(self.seed, "search", "decoys", self.index, len(order)))

    @cached_property
    def wanted(self) -> tuple[int, int]:
        """Return how many groups a candidate has, and how many probes each."""
        return wanted_probes(self.scene.mechanism, len(self.scene.places))

    def _groups(self, family: Family) -> list[Group]:
        number = TOKEN_GROUPS if family.name == "vocabulary" else GROUPS
        rng = stream(self.seed, "search", "family", family.name, self.index)
        return family.write(rng, number, max(LEAST_GROUP, self.wanted[1] + self.scene.mechanism.k), self.vocabulary)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        self.tried.update(texts)
        return np.asarray(self.encode(texts), dtype=np.float32)

    def _quietest(self, vectors: Vectors) -> list[int]:
        """Return the order of texts by what the search's users would add to them, the quietest first."""
        heard = background(self.scene.searched, vectors, self.scene.mechanism.k)
        return [int(place) for place in np.lexsort((-heard.margins, heard.loudness))]

    def _passes(self, texts: Sequence[str], vectors: Vectors) -> bool:
        return self.accept is None or bool(np.all(self.accept(texts, vectors)))

    def _part(self, family: Family, group: Group, before: Sequence["_Part"]) -> "_Part | None":
        """Return a group as a part of a candidate: its quietest texts that pass beside the parts before are probes."""
        vectors, chosen = self._vectors(group), list[int]()
        texts = [text for part in before for text in part.probes]
        beside = [part.probe_vectors for part in before]
        for place in self._quietest(vectors):
            trial = [*chosen, place]
            together = [*texts, *(group[i] for i in trial)]
            if len(chosen) < self.wanted[1] and self._passes(together, np.concatenate((*beside, vectors[trial]))):
                chosen = trial
        if not chosen:
            return None
        rest = [place for place in range(len(group)) if place not in chosen] or chosen
        probes, records = (tuple(group[i] for i in places) for places in (chosen, rest))
        part = _Part(family.name, probes, vectors[chosen], records, vectors[rest])
        return part if self.scene.mechanism.share == 1 else self._spread(part)

    def _spread(self, part: "_Part") -> "_Part":
        """Return a part whose records vote for its probes first, and each for other entries after them."""
        scene, own = self.scene, len(part.probes)
        rng = stream(self.seed, "search", "records", self.index, part.probes[0])
        entries = scene.bank.texts or part.records
        pieces = [entries[i] for i in rng.permutation(len(entries))[: SPREAD // len(REPEATS)]]
        texts = [f"{' '.join([part.probes[0]] * times)} {piece}" for piece in pieces for times in REPEATS]
        vectors = self._vectors(texts)
        planted = scene.bank.with_probes(part.probe_vectors, None if scene.bank.texts is None else part.probes)
        # Within a share votes go to entries farther down the ranking, so these are to differ too.
        depth = min(len(scene.bank.base), math.ceil(scene.mechanism.k / scene.mechanism.share))
        routes = RouteTable.build(vectors, scene.bank, depth).swap(planted)
        first = np.isin(routes[:, :own], scene.places[:own]).all(axis=1).reshape(-1, len(REPEATS))
        # Of each piece, the text that holds the probe's words least often.
        fitting = (np.arange(len(first)) * len(REPEATS) + first.argmax(axis=1))[first.any(axis=1)]
        chosen = least_alike(routes[fitting, own:], self.records)
        if not chosen:
            return part
        rows = fitting[chosen]
        return replace(part, records=tuple(texts[row] for row in rows), record_vectors=vectors[rows])

    def _joined(self, parts: Sequence["_Part"], loud: Sequence[str], rng: np.random.Generator) -> Candidate:
        """Return the candidate that parts make together, with decoys where these help; records go to parts in turn."""
        turns = range(max(len(part.records) for part in parts))
        order = [(part, turn % len(part.records)) for turn in turns for part in parts]
        texts, vectors = [part.records[i] for part, i in order], np.array([part.record_vectors[i] for part, i in order])
        probes = tuple(text for part in parts for text in part.probes)
        made = Candidate(
            parts[0].family,
            self._canary(texts, vectors),
            np.concatenate([part.probe_vectors for part in parts]),
            probes,
            len(probes),
        )
        cores = [min(part.probes, key=len) for part in parts]
        return self._with_decoys(made, cores, loud, rng) if self.scene.mechanism.share == 1 else made

    def _canary(self, texts: Sequence[str], vectors: Vectors) -> Canary:
        """Return the canary whose records are these texts in turn."""
        rows = [number % len(texts) for number in range(self.records)]
        return Canary(vectors[rows], tuple(texts[row] for row in rows), f"{self.name}-{self.index}", CanaryKind.NONCE)

    def _with_decoys(
        self, candidate: Candidate, cores: Sequence[str], loud: Sequence[str], rng: np.random.Generator
    ) -> Candidate:
        """Return a candidate with decoys: texts that stray records are nearer to than to its probes.

        Most join the group's core to what users write: pieces of the public bank, or texts that many records vote for.
        """
        room = len(self.scene.places) - candidate.probes
        if not room:
            return candidate
        table, k = self.scene.searched.table, self.scene.mechanism.k
        written = dict.fromkeys(self._decoy(cores[i % len(cores)], loud, rng) for i in range(DECOYS))
        texts = [text for text in written if text not in candidate.texts]
        vectors, own = self._vectors(texts), candidate.vectors
        far = nobody_elses(candidate.canary.vectors, own, vectors, k)
        chosen = [far[j] for j in choose_decoys(table, own, vectors[far], k, room)]
        if self.accept is not None and chosen:
            both = [*candidate.texts, *(texts[j] for j in chosen)]
            passed = self.accept(both, np.concatenate((own, vectors[chosen])))[candidate.probes :]
            chosen = [j for j, passes in zip(chosen, passed, strict=True) if passes]
        if margin(table, own, vectors[chosen], k) <= margin(table, own, vectors[:0], k):
            return candidate
        planted = (*candidate.texts, *(texts[j] for j in chosen))
        return replace(candidate, vectors=np.concatenate((own, vectors[chosen])), texts=planted)

    def _decoy(self, core: str, loud: Sequence[str], rng: np.random.Generator) -> str:
        public, joined, text = rng.random() < PUBLIC, rng.random() < JOINED, loud[int(rng.integers(len(loud)))]
        if public and self.scene.bank.texts:
            entry = self.scene.bank.texts[int(rng.integers(self.scene.bank.size))]
            length = int(rng.integers(4, 64))
            start = int(rng.integers(max(1, len(entry) - length)))
            text = entry[start : start + length].strip() or text
        return f"{core} {text}" if joined else text

    def exchanged(self, judged: Judged) -> Candidate:
        """Return a candidate after exchanges of a probe for a record, each of which raised its exact epsilon.

        One that is as good as perfect stays as it is, and so does one whose records all have one vector.
        """
        candidate, best, left = judged.candidate, judged.epsilon, EXCHANGES
        rest = list(dict.fromkeys(candidate.canary.texts or ()))
        first = [(candidate.canary.texts or ()).index(text) for text in rest]
        texts, count = [*candidate.texts, *rest], len(candidate.texts)
        vectors = np.concatenate((candidate.vectors, candidate.canary.vectors[first]))
        if np.ptp(candidate.canary.vectors, axis=0).max() <= np.finfo(np.float32).eps:
            return candidate
        order = list(range(len(texts)))
        for probe in range(candidate.probes):
            for record in range(count, len(texts)):
                if best >= self.scene.limit - RESOLUTION or not left:
                    return candidate
                left -= 1
                trial = order.copy()
                trial[probe], trial[record] = order[record], order[probe]
                kept, others = trial[:count], trial[count:]
                planted = tuple(texts[i] for i in kept)
                if not self._passes(planted, vectors[kept]):
                    continue
                canary = self._canary([texts[i] for i in others], vectors[others])
                made = replace(candidate, canary=canary, vectors=vectors[kept], texts=planted)
                found = self.scene.judge(made, held_out=False).epsilon
                if found > best + RESOLUTION:
                    candidate, order, best = made, trial, found
        return candidate

    def nonces(self) -> Candidate:
        """Return the design of ``nonce-mueff`` on the search's part, as a candidate."""
        scene, canary = self.scene, nonce_canary(self.records, self._vectors, self.seed, self.index, self.name)
        pool = nonce_pool(self._vectors)(canary, max(POOL_SIZE, len(scene.places)), self.seed)
        made = design(
            NONCE_MUEFF,
            canary,
            scene.bank,
            scene.searched,
            scene.mechanism,
            eligible=scene.eligible,
            pool=pool,
            probes=len(scene.places),
            seed=self.seed,
        )
        rows, texts = list(made.selected), pool.texts or ()
        return Candidate("nonces", canary, pool.vectors[rows], tuple(texts[j] for j in rows), len(rows))
