"""Say in a line what became of a generator's answers, and how similar its paraphrases are to their records."""

from collections import Counter

from canarybank.attack import PoolFacts
from canarybank.experiment.manifest import GeneratorRecord, Manifest
from canarybank.experiment.results import Results
from canarybank.generate.counters import outcome_text
from canarybank.report.text import clean

__all__ = ["generator_line", "written_lines"]

_REASONS = 3
_LIMIT = 600


def written_lines(results: Results) -> dict[str, str]:
    """Return a line for a bank and one for paraphrases, where a generator wrote them and it is known how."""
    lines = {}
    if results.setup is not None and (counters := results.setup.bank_counters):
        lines["bank answers"] = outcome_text(counters, _REASONS)
    if pools := _pools(results):
        lines["paraphrases"] = "; ".join(filter(None, (_similar(pools), _answered(pools))))
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


def _pools(results: Results) -> list[PoolFacts]:
    """Return each canary's pool once: attacks that share a canary share its pool."""
    found = {each.canary: each.pool for attack in results.attacks for each in attack.canaries if each.pool is not None}
    return list(found.values())


def _similar(pools: list[PoolFacts]) -> str:
    size = f"{pools[0].size:,} a canary"
    found = [pool.similarity for pool in pools if pool.similarity is not None]
    if not found:
        return size
    ends = f"{min(each.smallest for each in found):.2f} to {max(each.largest for each in found):.2f}"
    low, high = (f"{end(each.median for each in found):.2f}" for end in (min, max))
    middle = f"median {low}" if low == high else f"medians {low} to {high}"
    return f"{size}, {found[0].measure} to their records {ends}, {middle}"


def _answered(pools: list[PoolFacts]) -> str:
    counters: Counter[str] = Counter()
    for pool in pools:
        counters.update(pool.counters)
    return f"answers: {outcome_text(counters, _REASONS)}" if counters else ""
