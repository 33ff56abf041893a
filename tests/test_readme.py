"""Every command and code block of the README runs, and its figures are the demo's."""

import json
import math
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import canarybank
from canarybank.attack import ATTACKS, CanaryKind
from canarybank.flow import embedded_bank

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


EXTRAS = ("torch", "sentence_transformers", "transformers", "openai", "xllamacpp", "opacus", "mauve")
LIGHT = f"""#!{sys.executable}
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from canarybank.cli import main
sys.exit(main())
"""


def blocks(language):
    return [text for kind, text in BLOCKS if kind == language]


def planned(target):
    """Return the commands that make would run for a target on a fresh machine."""
    make = shutil.which("make") or "make"
    # Run by make itself, its own flags would come along and announce folders.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = [make, "--no-print-directory", "-n", "-B", target]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """A folder to work in, with its own cache, and `canarybank` of a light install on the path."""
    folder = tmp_path_factory.mktemp("readme")
    light = tmp_path_factory.mktemp("light")
    (light / "canarybank").write_text(LIGHT)
    (light / "canarybank").chmod(0o755)
    path = os.pathsep.join([str(light), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"CANARYBANK_CACHE": str(folder / "cache"), "COLUMNS": "100", "PATH": path}

    def run(command, expect=0):
        done = subprocess.run(  # noqa: S602, the README's commands are typed into a shell
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == expect, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return folder, run


def test_every_block_is_of_a_kind_that_is_tested_here():
    assert [kind for kind, _ in BLOCKS] == ["sh", "sh", "sh", "toml", "python", "python", "sh", "sh"]


def test_a_reader_installs_first_and_meets_each_word_where_it_is_explained():
    assert blocks("sh")[0].splitlines() == ["pip install canarybank", "canarybank demo"]
    assert re.findall(r"^## (.*)$", README, re.MULTILINE)[0] == "Install"
    for word in ("bank", "probe", "canary", "nonce"):
        first = re.search(rf"(\*\*)?\b{word}s?\b(?!\.)", README)
        assert first[1], f"{word!r} is first met as {first[0]!r}, where nothing explains it"


def test_the_two_commands_are_targets_that_do_what_the_readme_says():
    assert blocks("sh")[1].splitlines() == ["make demo", "make test"]
    assert planned("demo").rstrip().endswith("canarybank demo")
    for tool in ("ruff format --check", "ruff check", "lint-imports", "mypy", "pytest"):
        assert tool in planned("test")


@pytest.fixture(scope="module")
def demo(shell):
    """What the whole demo prints: the only place where it runs at its full size."""
    return shell[1]("canarybank demo")


def test_the_demo_runs_offline_and_ends_in_a_table_and_a_page(shell, demo):
    folder, run = shell
    lines = [line.split() for line in demo.splitlines() if line.strip()]
    assert [line[0] for line in lines if line[0] in ATTACKS and len(line) == 8] == list(ATTACKS)
    assert "runs/demo/report.html" in demo
    assert "512 a canary, wordllama cosine to their records 0.50 to 1.00" in " ".join(demo.split())
    assert (folder / "runs" / "demo" / "report.html").stat().st_size < 1_500_000
    assert run("canarybank demo") == demo


@pytest.fixture(scope="module")
def found(shell, demo):  # noqa: ARG001, it wrote the results
    """What the demo found of each attack: the whole embedded default, 450 users, five canaries, 2,048 entries."""
    results = json.loads((shell[0] / "runs" / "demo" / "results.json").read_text())
    return {row["attack"]: row for row in results["attacks"]}


def test_all_ten_attacks_run_in_the_light_install(found):
    ladders = {name: row["ladder"] for name, row in found.items()}
    mechanism = ladders["nonce"]["mechanism"]["epsilon"]
    exact = {name: ladder["attack"]["epsilon"] for name, ladder in ladders.items()}
    assert list(exact) == list(ATTACKS)
    assert len(exact) == 10
    # An attack can spend the budget and no more; nonces spend nearly all of it, real users not much more than half.
    assert all(0 < value <= mechanism + 1e-6 for value in exact.values())
    assert min(value for name, value in exact.items() if name.startswith("nonce")) > 0.9 * mechanism
    assert max(value for name, value in exact.items() if ATTACKS[name].canary is CanaryKind.REAL) < 0.6 * mechanism
    assert min(exact[f"paraphrase-{name}"] for name in ("norm", "mueff", "exact")) > exact["paraphrase"]
    assert exact["searched"] > 0.97 * mechanism


def test_the_light_figures_are_those_that_were_measured(found):
    # Exact figures, so no trial moves them.
    measured = {"ordinary": 0.518, "exact": 0.447, "paraphrase": 0.419, "paraphrase-mueff": 0.812, "nonce": 1.678}
    measured |= {"paraphrase-exact": 0.841, "searched": 1.684}
    for name, value in measured.items():
        assert found[name]["ladder"]["attack"]["epsilon"] == pytest.approx(value, abs=2e-3), name


def test_the_table_of_the_readme_is_the_demos(shell, found):
    table = README.partition("<!-- demo table -->\n")[2].partition("<!-- end of demo table -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    *attacks, joint = rows
    outcome = canarybank.gate(shell[0] / "runs" / "demo", 1.695)
    shares = {each.attack: each.bound.epsilon for each in outcome.attacks}
    assert [row[0] for row in attacks] == list(found)
    strongest = max(row["ladder"]["attack"]["epsilon"] for row in found.values())
    assert joint == ["**all ten together**", "", f"{strongest:.3f}", "", "", "", f"**{outcome.epsilon:.3f}**"]
    for name, _, exact, rule, expected, observed, share in attacks:
        ladder = found[name]["ladder"]
        figures = [f"{ladder[rung]['epsilon']:.3f}" for rung in ("attack", "rule", "observed")]
        figures.append(f"{shares[name]:.3f}")
        if name == "searched":  # which of many texts a search finds depends on the processor's last bits
            others = [float(each) for each in (rule, observed, share)]
            assert exact == figures[0]
            assert others == pytest.approx([float(each) for each in figures[1:]], abs=0.15)
            continue
        assert [exact, rule, observed, share] == figures
        assert expected == f"{ladder['expected']['low']:.3f} to {ladder['expected']['high']:.3f}"


def test_what_is_said_of_the_table_is_true(shell, found):
    ladders = {name: row["ladder"] for name, row in found.items()}
    shares = {name: each["observed"]["epsilon"] / each["attack"]["epsilon"] for name, each in ladders.items()}
    real = [name for name in found if ATTACKS[name].canary is CanaryKind.REAL]
    said = " ".join(README.split())
    assert "about two thirds of what the nonce attacks reach, and about half of what the attacks on real people" in said
    assert all(0.6 < shares[name] < 0.72 for name in found if name.startswith("nonce"))
    assert all(0.4 < shares[name] < 0.6 for name in real)
    numbers = re.findall(r"^\| (?:at least )?(\d\.\d{3}) \|", README, re.MULTILINE)
    picture = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    assert " ".join(numbers) == picture["shown_text"](picture["found_figures"](shell[0] / "runs" / "demo"))
    largest = max(each["observed"]["epsilon"] for each in ladders.values())
    assert f"that is why it says {numbers[-1]} and not {largest:.3f}" in said
    made_up, real_person = (1 / (1 + math.exp(-float(number))) for number in numbers[1:3])
    assert f"about {made_up:.0%} sure of the person that it made up, and about {real_person:.0%} sure of the" in said


def test_the_number_of_the_paper_is_the_upper_end_of_an_error_band():
    exact = canarybank.epsilon(canarybank.Mechanism())
    assert f"exact epsilon of these settings is {exact:.4f}" in README
    assert round(exact + 0.01, 3) == pytest.approx(1.695, abs=5e-4)


def test_own_users_in_one_command_or_five_lines_of_toml(shell):
    folder, run = shell
    toml = blocks("toml")[0]
    settings = [line for line in toml.splitlines() if line.strip() and not line.startswith("#")]
    assert len(settings) <= 5
    (folder / "my-audit.toml").write_text(toml)
    lines = ["user,text"]
    for user in range(40):
        lines += [f"u{user},message {number} of user {user} about topic {(user * number) % 17}" for number in range(20)]
    (folder / "my-users.csv").write_text("\n".join(lines) + "\n")
    plan, audit, gate = blocks("sh")[2].strip().splitlines()
    small = " --audit.trials 20000 --cohorts.canaries 2"
    assert "would show a median bound of" in run(plan + small)
    assert "report.html" in run(audit + small)
    assert "no violation detected at this power" in run(gate).lower()
    quick = " --audit.trials 500 --audit.threshold analytic --attack.names nonce-norm --cohorts.canaries 1"
    assert "`canarybank audit my-audit.toml` reads it" in README
    assert "runs/my-audit/report.html" in run("canarybank audit my-audit.toml" + quick)
    *reproductions, sweep = blocks("sh")[4].strip().splitlines()
    assert "Sweep over mechanism.sigma and mechanism.q" in run(sweep + quick)
    for command in reproductions:
        known = run(f"{command} --help")
        assert all(option in known for option in re.findall(r"--(?:data|scale|generator)\b", command))


def test_a_bank_is_vetted_and_proved_as_the_readme_says(shell):
    folder, run = shell
    vetted, proved, evolved = blocks("sh")[3].strip().splitlines()
    (folder / "bank.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in embedded_bank().texts[:200]))
    assert run(vetted).startswith("Nothing found")
    assert "200 entries" in run(proved)
    known = run("canarybank config show --describe")
    assert all(option in known for option in re.findall(r"--([a-z]+\.[a-z]+)", evolved))


def test_the_python_block_prints_one_result(shell):
    folder, run = shell
    (folder / "block.py").write_text(blocks("python")[0])
    printed = run(f"{sys.executable} block.py")
    assert re.fullmatch(r"AuditResult\(ordinary: epsilon >= .* \| exact: epsilon >= .*\)\n", printed)
    assert len(printed.splitlines()) == 1


def test_the_audit_of_a_foreign_system_prints_its_verdict(shell):
    folder, run = shell
    (folder / "foreign.py").write_text(blocks("python")[1])
    assert run(f"{sys.executable} foreign.py") == "refuted\n"


def test_the_picture_shows_what_the_demo_found(shell, found):
    assert found
    picture = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    shown = picture["shown_text"](picture["found_figures"](shell[0] / "runs" / "demo"))
    with Image.open(ROOT / "docs" / "images" / "overview.png") as drawn:
        assert drawn.text["Description"] == shown
    assert all((ROOT / image).is_file() for image in re.findall(r"!\[[^]]+\]\(([^)]+)\)", README))
