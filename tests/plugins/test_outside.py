"""A package outside src/ brings an entry of every kind but a generator; an audit and an evolution run with them."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from canarybank import registry
from canarybank.attack import ATTACKS
from canarybank.config import resolve
from canarybank.errors import ConfigError, InputError, MissingError
from canarybank.evolution import Evolution
from canarybank.flow import gather, run_audit, run_evolution
from canarybank.run import verify
from canarybank.store import StageCache
from canarybank.testing import (
    check_attack,
    check_encoder,
    check_engine,
    check_feedback,
    check_keeper,
    check_parents,
    check_selection,
    check_system,
)

NAMES = {
    "attack": "planted",
    "selection": "last-first",
    "encoder": "letters",
    "method": "thirds",
    "system": "rounded",
    "engine": "backwards",
}
RULES = {"keeper": "every-second", "parent rule": "first-kept", "feedback": "echo"}
OURS = {
    "attack.names": "ordinary,planted",
    "encoder.name": "letters",
    "run.engine": "backwards",
    "audit.method": "thirds",
}
ALL = {**OURS, "audit.system": "rounded"}
BY_PLACE = {
    "attack.names": "ordinary,outside_bank.attack:PLANTED",
    "encoder.name": "outside_bank.encoder:LettersEncoder",
    "run.engine": "outside_bank.engine:Backwards",
    "audit.method": "outside_bank.method:THIRDS",
}

pytestmark = pytest.mark.usefixtures("outside")


def started(*words):
    words = [sys.executable, "-m", "canarybank", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def command(*words):
    done = started(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def flags(settings):
    return [word for key, value in settings.items() for word in (f"--{key}", value)]


@pytest.mark.parametrize(("kind", "name"), (NAMES | RULES).items())
def test_a_plugin_is_registered_beside_our_own(kind, name):
    found = registry.REGISTRIES[kind]
    assert found.names() == (*found.places, name)
    assert found.check(name) == name
    assert f"did you mean '{name}'?" in found.unknown(name[:-1])


def test_its_author_can_check_it():
    check_attack(registry.ATTACKS.find("planted"))
    check_selection(registry.SELECTIONS.find("last-first"))
    check_encoder(registry.ENCODERS.find("letters"))
    check_system(registry.SYSTEMS.find("rounded"))
    check_engine(registry.ENGINES.find("backwards"))
    check_keeper(registry.KEEPERS.find("every-second"))
    check_parents(registry.PARENT_RULES.find("first-kept"))
    check_feedback(registry.FEEDBACKS.find("echo"))


@pytest.mark.parametrize("by_place", [False, True], ids=["by name", "by place"])
def test_an_evolution_runs_with_its_rules(evolving, answering, tmp_path, by_place):
    names = {
        "evolve.keeper": "outside_bank.rules:EverySecond" if by_place else "every-second",
        "evolve.parents": "outside_bank.rules:FirstKept" if by_place else "first-kept",
        "evolve.feedback": "outside_bank.rules:Echo:0.8,fresh:0.2" if by_place else "echo:0.8,fresh:0.2",
    }
    resolved = resolve(flags=evolving | names)
    with answering(lambda asked: f"I saw {asked.seed} cats in house number {asked.seed % 97} today."):
        run = run_evolution(resolved, tmp_path / "run")
    assert sys.modules["outside_bank.rules"].called == set(RULES)
    assert {(each.kind, each.package) for each in run.manifest.plugins} >= {
        (kind, "outside_bank" if by_place else "outside-bank 1.2") for kind in RULES
    }
    first = Evolution.load(run.folder / "evolution").rounds[0]
    assert first.kept.tolist() == list(range(0, 60, 2))
    born = [each for each in run_population(run.folder) if each["born"] == 2]
    assert [each["prompt"] for each in born].count("echo") == round(0.8 * len(born))
    assert verify(run.folder).ok


def run_population(folder):
    return [json.loads(line) for line in (folder / "population.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("settings", [OURS, BY_PLACE], ids=["by name", "by place"])
def test_an_audit_runs_with_them_from_python(small, settings, tmp_path):
    run = run_audit(resolve(flags={**small, **settings}), tmp_path / "run")
    attack = run.results.attack("planted")
    assert run.results.setup.encoder == "letters"
    assert attack.description == "plant a copy of each record of a canary made of nonces"
    assert (attack.on_people, attack.plants) == (False, True)
    assert sys.modules["outside_bank.engine"].done
    assert verify(run.folder).ok
    pins = {(each.kind, each.package) for each in run.manifest.plugins}
    package = "outside-bank 1.2" if settings is OURS else "outside_bank"
    assert pins == {
        ("selection", "outside-bank 1.2"),
        *((kind, package) for kind in ("attack", "encoder", "engine", "method")),
    }
    assert attack.headline.method == "thirds"
    assert all(len(each.sha256) == 64 for each in run.manifest.plugins)


def test_the_same_audit_by_the_command_line_gives_the_same_results(small, tmp_path):
    run = run_audit(resolve(flags={**small, **OURS}), tmp_path / "run")
    words = ["--folder", tmp_path / "other", "--json", "--quiet"]
    document = command("audit", *flags({**small, **OURS}), *words)
    assert [each["attack"] for each in document["attacks"]] == ["ordinary", "planted"]
    assert (tmp_path / "other" / "results.json").read_bytes() == (run.folder / "results.json").read_bytes()
    assert "Nonce canaries are no people" in (tmp_path / "other" / "report.html").read_text()


def test_an_audit_runs_with_all_six(small, tmp_path):
    run = run_audit(resolve(flags={**small, **ALL}), tmp_path / "run")
    assert sys.modules["outside_bank.system"].asked
    assert {each.kind for each in run.manifest.plugins} == set(NAMES)
    assert run.results.audit.system == run.commitment.system == "rounded"
    assert run.results.attack("planted").ladder.attack is None  # a system without a law has no exact figures
    assert verify(run.folder).ok
    command("audit", *flags({**small, **ALL}), "--folder", tmp_path / "other", "--json", "--quiet")
    assert (tmp_path / "other" / "results.json").read_bytes() == (run.folder / "results.json").read_bytes()


def test_bounds_by_the_plugin_are_checked_only_where_the_user_trusts_it(small, tmp_path, monkeypatch):
    """A folder that is whole, and its method somebody else's: one process makes it, others check it."""
    monkeypatch.chdir(tmp_path)
    command("audit", *flags({**small, **OURS}), "--folder", "runs/run", "--json", "--quiet")
    document = command("verify", "runs/run", "--json")
    assert document["ok"]
    assert "bounds were not made again" in " ".join(document["notes"])
    checked = command("verify", "runs/run", "--trust", "thirds", "--json")
    assert checked["ok"]
    assert "bounds were not made again" not in " ".join(checked["notes"])
    for words in (("gate", "runs/run", "--claimed-eps", "9"), ("report", "runs/run", "--out", "page")):
        refused = started(*words)
        assert refused.returncode == 2
        assert "The method 'thirds' is a plug-in" in refused.stderr
        assert "add --trust thirds" in " ".join(refused.stderr.split())
        assert started(*words, "--trust", "thirds").returncode == 0
    (entry,) = command("runs", "list", "--json")["runs"]
    assert entry["state"] == "finished"
    assert "--trust thirds" in entry["reason"]


def test_what_is_ours_stays_as_it_is(small, tmp_path):
    alone = run_audit(resolve(flags=small), tmp_path / "alone").results.attack("ordinary")
    beside = run_audit(resolve(flags={**small, "attack.names": "ordinary,planted"}), tmp_path / "beside").results
    assert beside.attack("ordinary") == replace(alone, evidence=beside.attack("ordinary").evidence)
    for word in ("all", "available"):
        config = resolve(flags={"attack.names": word, "cohorts.fixed": "embedded"}).config
        assert gather(config, StageCache(tmp_path), None).attacks == tuple(ATTACKS.values())
    assert "planted" not in ATTACKS


def test_a_plugin_that_changed_is_not_resumed(small, tmp_path, importing_from):
    source = "from outside_bank.attack import PLANTED\n"
    (tmp_path / "changing.py").write_text(source)
    told = {**small, "attack.names": "changing:PLANTED"}
    with importing_from(tmp_path):
        run = run_audit(resolve(flags=told), tmp_path / "run")
        before = run.manifest.plugins[0].sha256
        assert run_audit(resolve(flags=told), tmp_path / "run").is_finished
        (tmp_path / "changing.py").write_text(source + "# better now\n")
        with pytest.raises(ConfigError, match=r"the attack changing:PLANTED: changing with sha256") as refused:
            run_audit(resolve(flags=told), tmp_path / "run")
        assert before[:16] in str(refused.value)


RULED = """
from canarybank.attack import Attack, CanaryKind, PoolKind
ONE, OTHER = (Attack(each, CanaryKind.NONCE, PoolKind.RECORDS, "ruling:rule", "by a rule") for each in ("one", "other"))
"""


def test_a_rule_that_changed_is_neither_resumed_nor_taken_from_the_cache(small, tmp_path, importing_from):
    (tmp_path / "ruled.py").write_text(RULED)
    (tmp_path / "ruling.py").write_text("def rule(context): return range(len(context.pool))\n")
    told = resolve(flags={**small, "attack.names": "ruled:ONE,ruled:OTHER"})
    with importing_from(tmp_path):
        before = run_audit(told, tmp_path / "run")
        pins = [(each.kind, each.name) for each in before.manifest.plugins]
        assert pins == [("attack", "ruled:ONE"), ("attack", "ruled:OTHER"), ("selection", "ruling:rule")]
        (tmp_path / "ruling.py").write_text("def rule(context): return list(range(len(context.pool)))[::-1]\n")
        del sys.modules["ruling"]
        with pytest.raises(ConfigError, match=r"the selection ruling:rule: ruling with sha256"):
            run_audit(told, tmp_path / "run")
        after = run_audit(told, tmp_path / "other")
    banks = [[rule.bank_hash for rule in run.commitment.attacks[0].canaries] for run in (before, after)]
    assert all(old != new for old, new in zip(*banks, strict=True))


CHOOSY = """
from canarybank.evolution import KeepTop
calls = []


class Choosy:
    def __call__(self, choice):
        calls.append(choice)
        if len(calls) > {most}:
            raise ValueError("too many questions")
        return KeepTop()(choice)
"""


def test_an_evolution_goes_on_from_its_release_with_a_corrected_rule(evolving, answering, tmp_path, importing_from):
    source, folder = tmp_path / "choosy.py", tmp_path / "run"
    told = resolve(flags=evolving | {"evolve.keeper": "choosy:Choosy"})

    def run(most):
        source.write_text(CHOOSY.format(most=most))
        sys.modules.pop("choosy", None)
        return run_evolution(told, folder)

    with importing_from(tmp_path), answering(lambda asked: f"I saw {asked.seed} cats in {asked.seed % 97} houses."):
        with pytest.raises(InputError, match=r"The keeper 'choosy.Choosy' raised ValueError: too many questions\."):
            run(4)  # the rehearsal asks four times, and then comes the first release
        (first,) = folder.glob("evolution/rounds/000/release*")
        before = first.read_bytes()
        assert not (folder / "evolution/rounds/001").exists()
        done = run(1000)
        assert done.is_finished
        assert first.read_bytes() == before
        pins = [each for each in done.manifest.plugins if each.kind == "keeper"]
        assert len({each.sha256 for each in pins}) == len(pins) == 2
        with pytest.raises(ConfigError, match=rf"the keeper choosy:Choosy: choosy with sha256 {pins[1].sha256[:16]}"):
            run(1001)  # nothing waits for a rule any more


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"attack.names": "no_such_module:ATTACK"}, MissingError, "there is no module 'no_such_module'"),
        ({"attack.names": "outside_bank.attack:NOBODY"}, ConfigError, "holds no 'NOBODY'"),
        ({"attack.names": "outside_bank.engine:Backwards"}, ConfigError, "make it a canarybank.attack.Attack"),
        (
            {"attack.names": "planted,outside_bank.attack:PLANTED"},
            ConfigError,
            "called 'planted'; name each attack once",
        ),
        ({"encoder.name": "outside_bank.engine:Backwards"}, ConfigError, "which is no encoder"),
        ({"encoder.name": "outside_bank.system:UNIT"}, ConfigError, "cannot be called with"),
        ({"run.engine": "outside_bank.encoder:LettersEncoder"}, ConfigError, "which is no engine"),
        ({"generator.kind": "outside_bank.engine:Backwards"}, ConfigError, "cannot be called with"),
    ],
)
def test_what_is_no_such_plugin_is_refused_in_words(small, settings, error, said, tmp_path):
    with pytest.raises(error, match=said):
        run_audit(resolve(flags={**small, **settings}), tmp_path / "run")


@pytest.mark.parametrize("key", ["attack.names", "encoder.name", "audit.method", "audit.system", "run.engine"])
def test_a_mistyped_plugin_gets_a_hint_from_a_file_and_a_flag(key, tmp_path):
    name = dict(zip(ALL, ("planted", "letters", "backwards", "thirds", "rounded"), strict=True))[key]
    section, _, option = key.partition(".")
    (tmp_path / "config.toml").write_text(f'[{section}]\n{option} = "{name}x"\n')
    for given in ({"file": tmp_path / "config.toml"}, {"flags": {key: f"{name}x"}}):
        with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
            resolve(**given)


def test_a_broken_plugin_says_what_it_raised(tmp_path, importing_from):
    (tmp_path / "broken_plugin.py").write_text("1 / 0\n")
    with importing_from(tmp_path), pytest.raises(ConfigError, match="raised ZeroDivisionError: division by zero"):
        registry.ATTACKS.find("broken_plugin:ATTACK")
