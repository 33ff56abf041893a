"""Say in words what every figure of a run stands on, what none of them can tell, and what its generator wrote."""

from collections import Counter

from canarybank.attack import PoolFacts
from canarybank.generate.counters import outcome_text
from canarybank.report.text import clean
from canarybank.run.manifest import GeneratorRecord, Manifest
from canarybank.run.results import Results

__all__ = ["assumptions", "generator_line", "limits", "written_lines"]

_REASONS = 3
_LIMIT = 600
_OWN_RELEASES = [
    (
        "The release is simulated by this program with the given parameters. A fault in another implementation "
        "shows only when that implementation makes the releases."
    ),
    (
        "Background and rates are those of the users at hand: another population moves the attack's rungs, while "
        "the mechanism's rung stays."
    ),
]
_FOREIGN_RELEASES = [
    (
        "The releases are those of a system that is not canarybank's own, named by whoever ran the audit. That this "
        "system is the one that is deployed, and that its releases are independent from call to call, is not checked."
    ),
]


def assumptions(results: Results) -> list[str]:
    """Return what the claims of a run stand on."""
    pairs = results.attacks[0].headline
    return [
        f"Neighbours differ by adding or removing one user, with all of that user's records; delta is {pairs.delta:g}.",
        f"The {pairs.method} bound assumes {pairs.assumption}.",
        (f"{_fixed(results)} Anybody who saw its hash before the results can check that."),
        (
            "Each attack's headline is a claim of its own at level alpha. The verdict covers all attacks together, "
            "so it gives each an even share of alpha. A pooled bound stands beside a headline as one more claim; the "
            "larger of two claims is not a claim."
        ),
        (
            "Exact figures (mechanism, attack, rule, rates) are computed from the law of the score for these "
            "evaluation users, by Fourier inversion with certified ends. They hold for the mechanism as configured, "
            "not for code that differs from it."
        ),
    ]


def _fixed(results: Results) -> str:
    if results.setup is not None:
        return (
            "Bank, probes, score, threshold, method, number of trials and alpha were fixed in the commitment, on disk "
            "before the first evaluation trial."
        )
    return (
        "Score, method, number of trials, alpha and the recipe of the threshold were fixed in the commitment, on disk "
        "before the system was first called; sealed.json, on disk before the first evaluation trial, holds the "
        "threshold and the commitment's hash."
    )


def limits(results: Results) -> list[str]:
    """Return what the claims of a run do not say."""
    nonce = not all(attack.on_people for attack in results.attacks)
    return [
        (
            "Bounds are lower bounds. A small one means that these attacks, with this many trials, showed little; a "
            "stronger attack or more trials may show more."
        ),
        (
            "One release is audited, by a server that shapes the bank and sees the release. Several rounds, "
            "colluding users and side channels such as timing, logs or the generator's own memory lie outside."
            if results.rounds == 1
            else f"{results.rounds} releases are audited, by a server that shapes the first bank and sees them all. "
            "Colluding users and side channels such as timing, logs or the generator's own memory lie outside."
        ),
        *(_OWN_RELEASES if results.setup is not None else _FOREIGN_RELEASES),
        *(
            ["Nonce canaries are no people: they show what the mechanism allows, not what a user risks."]
            if nonce
            else []
        ),
    ]


def written_lines(results: Results) -> dict[str, str]:
    """Return a line for a bank and one for paraphrases, where a generator wrote them and it is known how."""
    lines = {}
    if results.setup is not None and (counters := results.setup.bank_counters):
        lines["bank answers"] = outcome_text(counters, _REASONS)
    # Each canary's pool once: attacks that share a canary share its pool.
    pools = {each.canary: each.pool for attack in results.attacks for each in attack.canaries if each.pool is not None}
    if pools:
        lines["paraphrases"] = _similar(list(pools.values()))
        answers: Counter[str] = Counter()
        for pool in pools.values():
            answers.update(pool.counters)
        if answers:
            lines["paraphrases"] += f"; answers: {outcome_text(answers, _REASONS)}"
    return {name: clean(line, _LIMIT) for name, line in lines.items()}


def generator_line(manifest: Manifest) -> str | None:
    """Say which generators a run asked, where its requests went and what was in them; None where that is unknown."""
    return "; ".join(map(_asked, manifest.generators)) or None


def _asked(record: GeneratorRecord) -> str:
    name = clean(record.model, 80)
    if record.server is None:
        return f"{name}, in the run's own process: nothing was sent"
    proxy = f" through the proxy {clean(record.proxy, 120)}" if record.proxy else ""
    to = f"{name} at {clean(record.server, 200)}{proxy}"
    if record.requests is None:
        return f"{to}: no request is made from users' records"
    sent = f"{to}: {record.requests:,} requests sent"
    if not record.requests_with_records:
        return f"{sent}, none to paraphrase a user's record"
    return f"{sent}, {record.requests_with_records:,} of them with a user's record ({record.records:,} different ones)"


def _similar(pools: list[PoolFacts]) -> str:
    size = f"{pools[0].size:,} a canary"
    found = [pool.similarity for pool in pools if pool.similarity is not None]
    if not found:
        return size
    ends = f"{min(each.smallest for each in found):.2f} to {max(each.largest for each in found):.2f}"
    low, high = (f"{end(each.median for each in found):.2f}" for end in (min, max))
    middle = f"median {low}" if low == high else f"medians {low} to {high}"
    return f"{size}, {found[0].measure} to their records {ends}, {middle}"
