"""Set the thresholds of vetting on honest banks, judge them on others, and measure which attacks they catch.

    python tools/vet_study.py set [--written FILE ...] [--judging FILE ...] [--court FILE] [--wheels FOLDER]
        [--evolved FOLDER] [--record FILE]
    python tools/vet_study.py judge [the same]
    python tools/vet_study.py detect [the same] [--banks A,B] [--counts 1 5 64] [--repeats 10] [--json FILE]

``set`` writes the record that the package carries: for each measure and level, which multiple of log(p / 5j) the j-th
largest of p entries may reach. A multiple is the quantile, by an exponential tail fitted above the 80% quantile, of
what the banks that set thresholds show, at a level that is declared here: ALPHA of each measure, half of it for one
entry alone and an eighth for each larger group. ``judge`` adds how often the other banks are called shaped, each judged
once, with and without public text. ``detect`` plants the probes of attacks into banks that set no threshold.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from search_study import settings_of_set, timed_designs
from vet_banks import HonestBank, Sources, gather_banks

from canarybank import __version__
from canarybank.attack import ATTACKS, nonces
from canarybank.attack.facts import phrase_facts
from canarybank.defend import BankVerdict, FalseAlarms, Measure, PublicText, Vetting
from canarybank.defend.vetting import LEVELS, SHARES, inputs_name, spread_out
from canarybank.encode import load_encoder
from canarybank.flow.vet import JUDGED_ENCODER
from canarybank.seeds import stream

__all__ = ["ALPHA", "allowed", "fit_factors", "judge_thresholds", "level_ratios", "set_thresholds", "vet_texts"]

ALPHA = {
    Measure.SURPRISE: 0.002,
    Measure.ISOLATION: 0.001,
    Measure.CROWD: 0.001,
    Measure.COPIES: 0.001,
    Measure.NO_VOTES: 0.001,
}
"""The share of honest banks that each measure may blame for single entries: 0.5% in all, 0.6% with public text."""
SPREAD_ALPHA = 0.001
"""The share that may be blamed because a large part of the bank is strange, split evenly over SHARES."""
BODY = 0.8
_UNJUDGED: Mapping[str, FalseAlarms] = defaultdict(lambda: FalseAlarms(1, 1))
COUNTS = (1, 2, 5, 16, 64)
RECORD = Path(__file__).parents[1] / "src" / "canarybank" / "defend" / "data" / "vetting.json"


def level_ratios(standard: NDArray[np.float64]) -> dict[int, float]:
    """Return, for each level that a bank of this size has, the j-th largest value as a multiple of log(p / 5j)."""
    ordered, size = np.sort(standard)[::-1], len(standard)
    ones = Vetting(dict.fromkeys(ALPHA, (1.0,) * len(LEVELS)), {}).thresholds(Measure.SURPRISE, size)
    return {j: float(ordered[j - 1] / unit) for j, unit in ones.items()}


def allowed(ratios: Sequence[float], alpha: float) -> float:
    """Return the multiple that a share ``alpha`` of honest banks exceeds, by an exponential tail above the body."""
    values = np.asarray(ratios)
    start = float(np.quantile(values, BODY))
    excess = float((values[values > start] - start).mean()) if values.max() > start else 0.0
    return start + excess * float(np.log((1 - BODY) / alpha))


def fit_factors(shown: Iterable[Mapping[Measure, NDArray[np.float64]]]) -> dict[Measure, tuple[float, ...]]:
    """Return the factors of each measure and level, from the standardised measures of honest banks."""
    ratios: dict[tuple[Measure, int], list[float]] = defaultdict(list)
    for standard in shown:
        for measure, values in standard.items():
            for level, ratio in level_ratios(values).items():
                ratios[measure, level].append(ratio)
    share = {level: 0.5 if level == 1 else 0.5 / (len(LEVELS) - 1) for level in LEVELS}
    measures = {measure for measure, _ in ratios}
    return {
        measure: tuple(round(allowed(ratios[measure, level], ALPHA[measure] * share[level]), 3) for level in LEVELS)
        for measure in Measure
        if measure in measures
    }


def vet_texts(check: Vetting, texts: Sequence[str], public: Sequence[str] | None) -> BankVerdict:
    """Return the verdict on a bank, with public text or without."""
    shown = None if public is None else PublicText(tuple(public), _encoded(tuple(public)))
    return check.vet(texts, _encoded(tuple(texts)), public=shown)


@cache
def _encoder() -> Any:
    return load_encoder(JUDGED_ENCODER)


@cache
def _encoded(texts: tuple[str, ...]) -> NDArray[np.float32]:
    return np.asarray(_encoder().encode(texts))


def fit_spreads(surprises: Sequence[NDArray[np.float64]]) -> tuple[float, ...]:
    """Return how far each of SHARES may be above the median, from the surprise of the entries of honest banks."""
    shown = [spread_out(each) for each in surprises]
    return tuple(
        round(allowed([float(np.quantile(each, 1 - share)) for each in shown], SPREAD_ALPHA / len(SHARES)), 3)
        for share in SHARES
    )


def set_thresholds(banks: Sequence[HonestBank]) -> dict[str, Any]:
    """Return the record of thresholds that some of the banks set, with nothing judged yet."""
    none = Vetting(dict.fromkeys(ALPHA, (1.0,) * len(LEVELS)), _UNJUDGED)
    setting, shown, surprises = [bank for bank in banks if bank.role == "set"], [], []
    for number, bank in enumerate(setting, start=1):
        print(f"{number} of {len(setting)}: {bank.name}, {len(bank.texts)} entries", flush=True)
        for public in (None, bank.public):
            verdict = vet_texts(none, bank.texts, public)
            shown.append(verdict.standard)
            surprises.append(verdict.values[Measure.SURPRISE])
    return {
        "about": "Thresholds of vetting: set on some honest banks, judged on others. Made by tools/vet_study.py.",
        "canarybank": __version__,
        "encoder": JUDGED_ENCODER,
        "levels": list(LEVELS),
        "alpha": {str(measure): alpha for measure, alpha in ALPHA.items()},
        "factors": {str(measure): list(each) for measure, each in fit_factors(shown).items()},
        "spreads": list(fit_spreads(surprises)),
        "judged": {},
        "alarmed": {},
        "banks": [[bank.role, bank.name, len(bank.texts), bank.hash] for bank in banks],
    }


def judge_thresholds(record: Mapping[str, Any], banks: Sequence[HonestBank]) -> dict[str, Any]:
    """Return the record with the false alarms on the banks that judge, with and without public text."""
    fitted = Vetting.from_record(record)
    check = Vetting(fitted.factors, _UNJUDGED, fitted.spreads)
    others = [bank for bank in banks if bank.role == "judged"]
    known = [[bank.role, bank.name, len(bank.texts), bank.hash] for bank in banks]
    if record["banks"] != known:
        raise SystemExit("These banks are not those of the record; give the same sources.")
    judged, alarmed = dict(record["judged"]), dict(record["alarmed"])
    for public in (False, True):
        blamed = {}
        for bank in others:
            verdict = vet_texts(check, bank.texts, bank.public if public else None)
            if verdict.is_shaped:
                causes = {str(each.measure): [*each.levels, *each.shares] for each in verdict.findings if each.alarms}
                blamed[bank.name] = {"by": causes, "entries": [bank.texts[i] for i in verdict.flagged[:3]]}
        name = inputs_name(public=public)
        judged[name], alarmed[name] = {"banks": len(others), "alarms": len(blamed)}, sorted(blamed)
        print(f"{name}: {FalseAlarms(len(others), len(blamed))}. {json.dumps(blamed, ensure_ascii=False)}", flush=True)
    return {**record, "judged": judged, "alarmed": alarmed}


def attack_probes(attack: str, seed: int) -> list[tuple[str, ...]]:
    """Return the probes that an attack plants among the built-in users, a tuple a canary, in the order of selection."""
    with tempfile.TemporaryDirectory() as folder:
        flags = settings_of_set("chitchat", Path(folder), court=None, bank="embedded", seed=seed)
        work, _ = timed_designs({**flags, "attack.names": (attack,)}, Path(folder))
        return [
            tuple(design.bank.texts[place] for place in design.inspected)
            for case in work.cases
            for design in case.designs
        ]


def _nonces(count: int, rng: np.random.Generator) -> Sequence[str]:
    return nonces(count, rng)


def _facts(count: int, rng: np.random.Generator, phrasings: int) -> Sequence[str]:
    return [text for group in phrase_facts(-(-count // phrasings), phrasings, rng) for text in group][:count]


def _designed(count: int, rng: np.random.Generator, probes: Sequence[tuple[str, ...]]) -> Sequence[str]:
    return probes[int(rng.integers(len(probes)))][:count]


def planted_kinds(repeats: int) -> dict[str, Callable[[int, np.random.Generator], Sequence[str]]]:
    """Return what is planted: probes of attacks as designed on the built-in users, nonces, and fluent sentences."""
    kinds: dict[str, Callable[[int, np.random.Generator], Sequence[str]]] = {
        "nonce": _nonces,
        "facts, five phrasings each": partial(_facts, phrasings=5),
        "facts, one phrasing each": partial(_facts, phrasings=1),
    }
    for attack in ("nonce-mueff", "searched"):
        if attack in ATTACKS:
            probes = [each for seed in range(-(-repeats // 5)) for each in attack_probes(attack, seed)]
            kinds[attack] = partial(_designed, probes=probes)
    return kinds


def detect(banks: Sequence[HonestBank], repeats: int, counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield how often a bank with planted entries is called shaped, by bank, what is planted, and how many.

    ``barred`` is the share of the planted entries that a careful client would not vote for.
    """
    check, kinds = Vetting.load(), planted_kinds(repeats)
    for bank in banks:
        for kind, write in kinds.items():
            for count in counts:
                row: dict[str, Any] = {"bank": 0, "bank+public": 0, "barred": 0.0}
                for repeat in range(repeats):
                    rng = stream(repeat, "vet study", bank.name, kind, count)
                    texts, planted = list(bank.texts), list(write(count, rng))
                    places = rng.permutation(len(texts))[: len(planted)]
                    for place, text in zip(places, planted, strict=True):
                        texts[place] = text
                    alone = vet_texts(check, texts, None)
                    row["bank"] += alone.is_shaped
                    row["bank+public"] += vet_texts(check, texts, bank.public).is_shaped
                    row["barred"] += float(np.isin(places, check.barred_by(alone)).mean()) / repeats
                    _encoded.cache_clear()
                yield {"in": bank.name, "size": len(bank.texts), "planted": kind, "count": count, "of": repeats, **row}


def main() -> None:
    """Set and judge thresholds, or measure what they catch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("set", "judge", "detect"))
    for name in ("written", "judging"):
        parser.add_argument(f"--{name}", type=Path, nargs="*", default=[])
    for name in ("court", "wheels", "evolved", "json"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--counts", type=int, nargs="*", default=list(COUNTS), help="how many entries to plant")
    parser.add_argument("--banks", help="the names of the banks in which to plant, separated by commas")
    given = parser.parse_args()
    banks = gather_banks(Sources(tuple(given.written), tuple(given.judging), given.court, given.wheels, given.evolved))
    if given.what != "detect":
        if given.what == "set":
            record = set_thresholds(banks)
        else:
            record = json.loads(given.record.read_text("utf-8"))
            record = judge_thresholds(record, banks)
        given.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    names = given.banks.split(",") if given.banks else [bank.name for bank in banks if bank.role == "judged"]
    rows = []
    chosen = [bank for bank in banks if bank.name in names]
    for row in detect(chosen, given.repeats, given.counts):
        rows.append(row)
        print(json.dumps(row), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
