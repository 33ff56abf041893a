"""Show the text of an evolution: samples by round, and where a candidate comes from.

All of it follows from the banks and the noisy releases in the run's folder, so the page of a real run shows nothing
that the releases do not. Each list is cut to a few texts, and says how many it leaves out.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import StoreError
from canarybank.evolution import Candidate, FolderArchive, Population
from canarybank.report.text import NAME, clean, label
from canarybank.run.clouds import evenly
from canarybank.run.folder import EVOLUTION, Run

__all__ = ["History", "last_texts", "lineage_trees", "read_history", "round_samples", "sample_texts"]

ROUNDS, SAMPLES, FINAL = 8, 5, 12
"""The most rounds that are shown, texts in each list of a round, and texts of the final population."""
TREES, NODES, TEXT = 6, 30, 160
"""The most candidates whose lineage is shown, candidates in one such tree, and characters of a text in it."""


@dataclass(frozen=True, eq=False)
class History:
    """The population of every bank of a run, and the noisy votes on each; nothing was voted on the last one.

    The votes of a candidate that vetting barred are not a number: there is only noise.
    """

    populations: tuple[Population, ...]
    votes: tuple[NDArray[np.float64], ...]

    @cached_property
    def candidates(self) -> dict[str, Candidate]:
        """Return every candidate of the run by its id."""
        return {each.id: each for population in self.populations for each in population.candidates}

    @cached_property
    def standings(self) -> dict[str, list[tuple[int, float, bool]]]:
        """Return for every candidate, by its id: each round that voted on it, the votes, and whether it stayed."""
        found: dict[str, list[tuple[int, float, bool]]] = {name: [] for name in self.candidates}
        for index, votes in enumerate(self.votes):
            after = self._ids(index + 1)
            for name, vote in zip(self.populations[index].ids, votes.tolist(), strict=True):
                found[name].append((index + 1, vote, name in after))
        return found

    @cached_property
    def final(self) -> Population:
        """Return the final population."""
        return self.populations[-1]

    def stayed(self, index: int) -> list[int]:
        """Return who of a bank is also in the next one, as indices, most votes first."""
        after = self._ids(index + 1)
        ids = self.populations[index].ids
        return [int(i) for i in np.argsort(-self.votes[index], kind="stable") if ids[i] in after]

    def dropped(self, index: int) -> list[int]:
        """Return who of a bank is not in the next one, as indices, fewest votes first, and those without votes last."""
        stayed = set(self.stayed(index))
        return [int(i) for i in np.argsort(self.votes[index], kind="stable") if int(i) not in stayed]

    def shown(self, index: int) -> list[int]:
        """Return who of a bank was shown to the generator for the next one, as indices, most votes first."""
        named = {name for each in self.written(index) for name in each.parents}
        ids = self.populations[index].ids
        return [int(i) for i in np.argsort(-self.votes[index], kind="stable") if ids[i] in named]

    def written(self, index: int) -> list[Candidate]:
        """Return the candidates that the round over a bank wrote, in the order of their slots."""
        if index + 1 >= len(self.populations):
            return []
        before = self._ids(index)
        return [each for each in self.populations[index + 1].candidates if each.id not in before]

    def _ids(self, index: int) -> frozenset[str]:
        return frozenset(self.populations[index].ids) if index < len(self.populations) else frozenset()


def read_history(run: Run) -> History | None:
    """Return the banks and votes of a finished evolution; None where its folder does not hold them."""
    facts = run.results.evolution
    if facts is None:
        return None
    archive = FolderArchive(run.folder / EVOLUTION, facts.insecure_seed)
    populations, votes = [], []
    for number in range(len(facts.rounds) + 1):
        published = archive.bank(number)
        if published is None:
            break
        _require_lineage(published.population, run.folder / EVOLUTION)
        populations.append(published.population)
        release = archive.release(number) if number < len(facts.rounds) else None
        if release is not None and len(release) == published.bank.size:
            release[list(published.bank.barred)] = np.nan
            votes.append(release[published.bank.base])
    is_whole = len(votes) == len(facts.rounds) and populations
    return History(tuple(populations), tuple(votes)) if is_whole else None


def _require_lineage(population: Population, folder: Path) -> None:
    """Refuse candidates whose lineage is not what canarybank writes; texts and vectors were checked with the bank."""
    for each in population.candidates:
        words = (each.id, each.label, each.prompt, *each.parents)
        if not isinstance(each.born, int) or not all(isinstance(word, str) for word in words):
            raise StoreError(
                f"A candidate in {str(folder)!r} has no lineage that can be read; its bank was altered, so restore it."
            )


def last_texts(run: Run, count: int = 5) -> list[str]:
    """Return a few texts of a run's final population, evenly spaced; for the terminal, which reads no other bank."""
    facts = run.results.evolution
    if facts is None:
        return []
    published = FolderArchive(run.folder / EVOLUTION).bank(len(facts.rounds))
    texts: Sequence[str] = facts.examples if published is None else published.population.texts
    return [clean(texts[i]) for i in evenly(len(texts), count)]


def sample_texts(history: History) -> dict[str, Any]:
    """Return a sample of the final population, evenly spaced, so that each label has its part."""
    candidates = history.final.candidates
    return {
        "candidates": len(candidates),
        "texts": [_line(candidates[i], (_origin(candidates[i]),)) for i in evenly(len(candidates), FINAL)],
    }


def round_samples(history: History) -> dict[str, Any]:
    """Return for some rounds, the first and the last among them: who stayed, what was written, and who was dropped."""
    shown = evenly(len(history.votes), ROUNDS)
    return {
        "left_out": [index + 1 for index in range(len(history.votes)) if index not in shown],
        "rounds": [_round(history, index) for index in shown],
    }


def _round(history: History, index: int) -> dict[str, Any]:
    candidates, votes = history.populations[index].candidates, history.votes[index]
    stayed, dropped, written = history.stayed(index), history.dropped(index), history.written(index)

    def voted(indices: Iterable[int]) -> list[dict[str, Any]]:
        return [_line(candidates[i], (_votes_text(votes[i]), _origin(candidates[i]))) for i in indices]

    # A run may carry nobody over: then those are of interest whom the generator was shown.
    name, first = ("Stayed", stayed) if stayed else ("Shown to the generator", history.shown(index))
    parts = [
        (name, "most votes first", voted(first[:SAMPLES]), len(first)),
        (
            "Written",
            "evenly spaced",
            [_line(each, (_prompt_text(each),)) for each in (written[i] for i in evenly(len(written), SAMPLES))],
            len(written),
        ),
        ("Dropped", "fewest votes first", voted(dropped[:SAMPLES]), len(dropped)),
    ]
    return {
        "round": index + 1,
        "candidates": len(candidates),
        "counts": {"stayed": len(stayed), "written": len(written), "dropped": len(dropped)},
        "parts": [
            {"name": name, "order": order, "lines": lines, "total": total} for name, order, lines, total in parts
        ],
    }


def lineage_trees(history: History) -> list[dict[str, Any]]:
    """Return the lineage of a few final candidates: some that the last round wrote, and some that stayed.

    A node holds a candidate, its votes by round, and the candidates that its prompt showed as nodes of their own.
    """
    final, before = history.final.candidates, len(history.votes)
    new = [each.id for each in final if 0 < each.born == before]
    chosen = [new[i] for i in evenly(len(new), TREES - TREES // 3)]
    last = history.populations[before - 1].ids if before else ()
    stayed = [last[i] for i in history.stayed(before - 1)] if before else []
    # Those with parents come first: the lineage of a first candidate is itself alone.
    chosen += sorted(stayed, key=lambda name: not history.candidates[name].parents)[: TREES - len(chosen)]
    return [_tree(history, name) for name in dict.fromkeys(chosen)]


def _tree(history: History, root: str) -> dict[str, Any]:
    """Return a candidate's lineage, nearest ancestors first, each of them opened once and so many at most."""
    tree = _node(history, root)
    waiting, shown = deque([tree]), {root}
    while waiting:
        node = waiting.popleft()
        for name in history.candidates[node["id"]].parents if node["id"] in history.candidates else ():
            is_again = name in shown
            if not is_again and len(shown) >= NODES:
                node["left_out"] += 1
                continue
            parent = _node(history, name, is_again=is_again)
            node["parents"].append(parent)
            if not is_again:
                shown.add(name)
                waiting.append(parent)
    _label_ids(tree)
    return tree | {"ancestors": len(_ancestors(history, root)), "shown": len(shown) - 1}


def _ancestors(history: History, root: str) -> set[str]:
    """Return the ids of all from whom a candidate comes."""
    found, waiting = set[str](), [root]
    while waiting:
        candidate = history.candidates.get(waiting.pop())
        new = set(candidate.parents) - found if candidate is not None else set()
        found |= new
        waiting += new
    return found


def _node(history: History, name: str, *, is_again: bool = False) -> dict[str, Any]:
    candidate = history.candidates.get(name)
    if candidate is None:
        return {"id": name, "text": "(not in this run's banks)", "about": [], "parents": [], "left_out": 0}
    votes = [
        f"round {number}: {_votes_text(vote)}, {'stayed' if stayed else 'dropped'}"
        for number, vote, stayed in history.standings[name]
    ]
    origin = " ".join(filter(None, (_origin(candidate), _prompt_text(candidate))))
    about = ["opened elsewhere in this tree"] if is_again else [origin, *votes]
    return {
        "id": name,
        "text": clean(candidate.text, TEXT),
        "about": list(filter(None, [clean(candidate.label, NAME), *about])),
        "parents": [],
        "left_out": 0,
    }


def _label_ids(node: dict[str, Any]) -> None:
    """Make the ids of a tree fit to show; until then they find their candidates."""
    node["id"] = label(node["id"])
    for parent in node["parents"]:
        _label_ids(parent)


def _line(candidate: Candidate, about: Sequence[str]) -> dict[str, Any]:
    """Return a candidate as a line of a list: its text, and what is said of it."""
    known = filter(None, (label(candidate.id), clean(candidate.label, NAME), *about))
    return {"text": clean(candidate.text), "about": list(known)}


def _origin(candidate: Candidate) -> str:
    return f"written in round {candidate.born}" if candidate.born else "of the first population"


def _prompt_text(candidate: Candidate) -> str:
    """Say which prompt a candidate answers, and how many candidates that prompt showed."""
    prompt, count = clean(candidate.prompt, NAME), len(candidate.parents)
    shown = f", showing {count} candidate{'s' * (count != 1)}" if count else ""
    return f"by the prompt {prompt}{shown}" if prompt else ""


def _votes_text(votes: float) -> str:
    return "barred by vetting" if np.isnan(votes) else f"votes {votes:+.3f}".replace("-", "−")
