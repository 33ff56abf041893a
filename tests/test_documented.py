"""Every function that a room exports says what each argument is, and shows an example that runs here.

A function that states somebody's formula links to it.
"""

import doctest
import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path

import pytest
from scripted_answers import WRITER

from canarybank.config import resolve_users
from canarybank.flow import run_evolution

ROOMS = (
    *("", "mechanism", "score", "auditing", "attack", "systems", "evolution", "measure"),
    *("store", "run", "flow", "report"),
    *("config", "defend", "encode", "engine", "generate", "paper", "testing", "users", "cli"),
)
FORMULAS = {
    *("epsilon", "mechanism.one_round_delta", "mechanism.one_round_epsilon", "mechanism.composed_epsilon"),
    *("mechanism.composition_bound", "mechanism.prv_epsilon", "mechanism.attained_epsilon", "mechanism.bank_root"),
    *("mechanism.prove", "score.tail", "score.epsilon_at", "score.supremum", "auditing.clopper_pearson"),
    *("auditing.rate_epsilon", "auditing.epsilon_lower", "auditing.pooled", "auditing.ceiling", "auditing.judge_run"),
    *("auditing.expected_bound", "auditing.expected_guesses", "auditing.guess_scores", "auditing.claimed_curve"),
    *("auditing.perfect_roc", "auditing.pairs_to_refute", "auditing.plan_bets", "auditing.rate_lower"),
    *("auditing.guessing_lower",),
    *("evolve", "evolution.project", "measure.effective_texts", "measure.frechet_distance"),
    *("measure.precision_recall",),
    *("defend.spread_epsilon", "defend.core_epsilon", "defend.equal_ranking_ratio", "defend.equal_ranking_reach"),
    *("defend.cores_reach", "defend.filtered_reach", "defend.reach", "defend.reach_under_share"),
    *("generate.describe_bank", "generate.fold", "generate.trigram_similarity"),
    *("store.hash_bytes", "store.inert_cell", "store.cache_root"),
    *("flow.prove_bank", "flow.check_proof", "report.roc_figure"),
}
"""What states somebody's formula."""
RECORDED = Path(__file__).parent / "recorded" / "folders"


def exported(room):
    """Return the functions that a room exports, by name; those that a cache wraps too."""
    module = importlib.import_module(f"canarybank.{room}" if room else "canarybank")
    things = {name: getattr(module, name) for name in module.__all__}
    return {name: thing for name, thing in things.items() if inspect.isfunction(inspect.unwrap(thing))}


FUNCTIONS = {thing: f"{room}.{name}".lstrip(".") for room in reversed(ROOMS) for name, thing in exported(room).items()}
FUNCTIONS = {name: thing for thing, name in FUNCTIONS.items()}  # each once, by its shortest name
SHOWN_ELSEWHERE = {
    "run_evolution",  # needs a generator: docs/evolution.md shows it by the command
    "defend.measure_likelihoods",  # needs a language model: docs/vetting.md shows it by --perplexity
}


def undocumented(function):
    """Return the parameters that the section Args of a docstring leaves out."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2]
    named = re.findall(r"^    \*{0,2}(\w+):", section, re.MULTILINE)
    return [name for name in inspect.signature(function).parameters if name not in named]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_explained(name):
    assert undocumented(FUNCTIONS[name]) == []


EVOLVED = {
    "bank.source": "bank.txt",
    "encoder.name": "hashing",
    "generator.kind": WRITER,
    "evolve.rounds": 1,
    "evolve.share": 0.5,
    "evolve.near": 1,
    "evolve.reference": 4,
    "evolve.mauve": False,
    "evolve.insecure_seed": 0,
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory, answering):
    """Return a folder with the files that examples name: users, a bank, a finished audit and a finished evolution."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(RECORDED / "audit", folder / "runs" / "demo")
    shutil.copy(RECORDED / "inputs" / "users.csv", folder / "my-users.csv")
    shutil.copy(RECORDED / "inputs" / "bank.txt", folder)
    with answering(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        run_evolution(resolve_users("my-users.csv", EVOLVED), "runs/evolved")
    return folder


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in SHOWN_ELSEWHERE])
def test_every_function_shows_an_example_that_runs(name, beside, monkeypatch):
    monkeypatch.chdir(beside)
    monkeypatch.setenv("CANARYBANK_CACHE", str(beside / "cache"))
    monkeypatch.setattr("canarybank.flow.measuring.find_spec", lambda _: None)  # loading MAUVE takes seconds
    function = FUNCTIONS[name]
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    known = dict(vars(sys.modules[function.__module__]))
    (case,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=known)
    done = runner.run(case)
    assert done.attempted
    assert done.failed == 0


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_formula_has_its_source(name):
    assert re.search(r"https://\S+", inspect.getdoc(FUNCTIONS[name]))


def test_a_function_without_either_would_be_seen():
    def bare(one, two):
        """Do nothing.

        Args:
            one: It.
        """

    assert undocumented(bare) == ["two"]
    assert doctest.DocTestFinder(recurse=False).find(bare)[0].examples == []
