"""Make a small real audit and evolution, and pieces of the paper, all with hostile text; tests look at their pages."""

import base64
import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import get_data_path

from canarybank.auditing import Settings
from canarybank.cli import main
from canarybank.config import resolve
from canarybank.flow import audit_system, design_one_run, run_audit, run_evolution, score_one_run
from canarybank.mechanism import Claim, Mechanism
from canarybank.paper import Cell, PaperValue, Piece, Span
from canarybank.report import summarise_run
from canarybank.run import Run

SCRIPT = "<script>window.hacked=1</script>"
HOSTILE = (
    f"</style></svg></title>{SCRIPT}\u202egnp.exe <img src=x onerror=window.hacked=1> \"'`&{{{{7}}}} | $x$ \\in{{x}}"
)
LONG = "long" * 2_500
WITHIN = Span(low=0.9, high=1.3)
WORDS = tuple(f"{a}{b}" for a in ("ba", "ko", "li", "mu", "sa", "te") for b in ("ra", "ni", "po", "ka", "du", "lo"))


@pytest.fixture(scope="session")
def hostile():
    """Return a text that tries to break out of every format."""
    return HOSTILE


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Return a finished run on hostile users and a hostile bank, three attacks with two canaries each."""
    folder = tmp_path_factory.mktemp("report")
    _users(folder / "users.csv")
    _bank(folder / "bank.csv")
    flags = {
        "users.source": str(folder / "users.csv"),
        "users.minimum_words": 1,
        "encoder.name": "hashing",
        "bank.source": str(folder / "bank.csv"),
        "attack.names": "ordinary,exact,nonce-norm",
        "attack.probes": 8,
        "attack.pool": 24,
        "audit.trials": 20_000,
        "audit.accounted": 1.695,
        "cohorts.canaries": 2,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        return run_audit(resolve(flags=flags), folder / "a <b> run", command=f"canarybank audit {HOSTILE}")


@pytest.fixture(scope="session")
def summary(run):
    """Return the summary of that run."""
    return summarise_run(run)


@pytest.fixture
def changed(run):
    """Return a function that gives the run with other results, as if its files said so."""

    def change(**update):
        other = Run(run.folder)
        other.__dict__["results"] = run.results.model_copy(update=update)
        return other

    return change


@pytest.fixture
def counted(changed, run):
    """Return a function that gives the run with these true and false positives for every canary of its first attack."""

    def change(tp, fp):
        first, *others = run.results.attacks
        canaries = [replace(canary, counts=replace(canary.counts, tp=tp, fp=fp)) for canary in first.canaries]
        return changed(attacks=(replace(first, canaries=tuple(canaries)), *others))

    return change


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Return a function that gives what ``canarybank report`` prints of a run: each line, its cells apart."""

    def show(run):
        folder = shutil.copytree(run.folder, tmp_path / "printed", dirs_exist_ok=True)
        monkeypatch.setenv("COLUMNS", "1000")
        assert main(["report", str(folder)]) == 0
        return [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]

    return show


def _users(path):
    rng = np.random.default_rng(11)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "text"])
        for user in range(40):
            name = f"=user {user} *b* {SCRIPT}\u202e" if user % 2 else f"user {user}"
            for record in range(8):
                text = " ".join(rng.choice(WORDS[user % 4 * 6 :][:12], size=6))
                writer.writerow([name, {0: f"{HOSTILE} {text}", 1: f"{LONG} {text}"}.get(record, text)])


def _bank(path):
    rng = np.random.default_rng(12)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        for entry in range(120):
            text = " ".join(rng.choice(WORDS, size=6))
            writer.writerow([{0: f"{HOSTILE} {text}", 1: f"{LONG} {text}"}.get(entry % 5, text)])


@pytest.fixture(scope="session")
def attack(summary):
    """Return the summary of one attack."""
    return summary["attacks"][1]


@pytest.fixture(scope="session")
def evolved(audited, answering, tmp_path_factory, hostile):
    """Return a small audited evolution whose generator writes what would break a page."""
    folder = tmp_path_factory.mktemp("evolved")

    def script(request):
        return f"I saw < {request.seed} & more '{request.seed % 5}' today."

    with answering(script), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        return run_evolution(resolve(flags=audited), folder / "run", command=f"canarybank evolve {hostile}")


def cell(at, observed=1.05, *, paper=(), explained=WITHIN, **more):
    return Cell(
        at=at,
        paper=paper,
        observed=observed,
        exact=1.684,
        rule=1.352,
        expected=1.09,
        likely=Span(low=1.0, high=1.2),
        explained=explained,
        mechanism=1.6845,
        accounted=1.695,
        method="paper",
        confidence=0.95,
        trials=1_000_000,
        canaries=5,
        threshold="calibrated",
        delta=1e-5,
        **more,
    )


def value(dataset, number, table="main table"):
    return PaperValue(dataset=dataset, table=table, value=number)


def piece(name, shape, coordinates, cells, notes=()):
    return Piece(
        name=name,
        title=f"The {name}",
        about="About it.",
        shape=shape,
        coordinates=coordinates,
        cells=tuple(cells),
        setup={"users": "a file"},
        notes=notes,
    )


@pytest.fixture(scope="session")
def table(hostile):
    """Return a table of the paper with a hostile note."""
    paper = (value("yelp", 1.049), value("yelp", 1.038, "full table"), value("sentiment140", 0.3, "both tables"))
    cells = [
        cell({"arm": "A", "attack": "nonce"}, paper=paper),
        cell({"arm": "A", "attack": "exact"}, 1.4, paper=paper),
        cell({"arm": "B", "attack": "nonce"}),
    ]
    return piece("main", "table", ("arm", "attack"), cells, (hostile,))


@pytest.fixture(scope="session")
def curves():
    """Return curves of the paper."""
    cells = [
        cell({"axis": axis, "value": x, "attack": attack}, 1 / x, explained=None)
        for axis in ("sigma", "q")
        for x in (0.5, 1.0)
        for attack in ("exact", "nonce")
    ]
    return piece("ablations", "curves", ("axis", "value", "attack"), cells)


@pytest.fixture(scope="session")
def sweep():
    """Return a sweep over a key that is no number."""
    cells = [
        cell({"encoder.name": name, "attack.names": attack, "attack": attack}, explained=None)
        for name in ("minilm", "mpnet")
        for attack in ("exact", "nonce")
    ]
    return piece("sweep", "curves", ("encoder.name", "attack.names", "attack"), cells)


@pytest.fixture(scope="session")
def grid():
    """Return a sweep over two keys of the mechanism, in no order."""
    cells = [
        cell({"mechanism.sigma": sigma, "mechanism.q": q, "attack": attack}, q / sigma, explained=None).model_copy(
            update={"mechanism": 2 * q / sigma}
        )
        for sigma in (2.0, 0.5, 1.0, 4.0)
        for q in (0.5, 0.1, 0.3)
        for attack in ("exact", "nonce")
    ]
    return piece("sweep", "curves", ("mechanism.sigma", "mechanism.q", "attack"), cells)


@pytest.fixture(scope="session")
def rounds():
    """Return the figure of several rounds."""
    cells = [cell({"rounds": t}, 0.9 + t / 10, more={"mauve": t / 10}) for t in (1, 2, 3)]
    return piece("multiround", "rounds", ("rounds",), cells)


@pytest.fixture(scope="session")
def every(table, curves, sweep, rounds):
    """Return a piece of every shape."""
    return (table, curves, sweep, rounds)


class Noisy:
    """A system in which a canary moves three values by the clip; it may lose runs, leave values out, or restart."""

    def __init__(self, factor=1.0, *, q=1.0, rounds=1, lost=0.0, ragged=False, restarts=False):
        self.noise, self.q, self.rounds = 0.1 / factor, q, rounds
        self.lost, self.ragged, self.restarts = lost, ragged, restarts

    def play(self, trials, rng):
        for number, trial in enumerate(trials):
            own = np.random.default_rng(number % 50) if self.restarts else rng
            yield None if rng.random() < self.lost else tuple(self.release(trial, own) for _ in range(self.rounds))

    def release(self, trial, rng):
        takes_part = trial.hypothesis == "eligible" and rng.random() < self.q
        values = rng.normal(0.0, self.noise, 3) + takes_part * np.array([0.1, 0.0, 0.0])
        return values[: 3 if takes_part else 2] if self.ragged else values


SURE = Mechanism(q=1.0)
SYSTEMS = {
    "violated": (Noisy(2.5), Claim(1.5, 1e-5), 600, {"evidence": ("bound", "betting")}),
    "other": (Noisy(2.0), Claim.of(SURE), 300, {"evidence": ("bound", "curve", "betting")}),
    "stands": (Noisy(), Claim.of(SURE), 200, {}),
    "dependent": (Noisy(restarts=True), Claim.of(SURE), 200, {}),
    "several": (
        Noisy(q=0.5),
        Claim.of(Mechanism(q=0.5)),
        150,
        {"canaries": ("one", "two", f"three {SCRIPT}")},
    ),
    "rounds": (Noisy(q=0.1, rounds=3), Claim.of(Mechanism(), rounds=3), 300, {}),
    "early": (
        Noisy(4.0, lost=0.05),
        Claim(1.0, 1e-5),
        1000,
        {"evidence": ("bound", "betting"), "batch": 100, "stop_when_refuted": True},
    ),
    "leak": (Noisy(ragged=True), Claim.of(SURE), 150, {}),
    "false": (Noisy(), Claim(1.0, 1e-5, mechanism=SURE), 60, {}),
    "replace": (Noisy(), Claim(6.0, 1e-5, neighbours="replace", mechanism=Mechanism(q=0.5)), 60, {}),
}


@pytest.fixture(scope="session")
def systems(tmp_path_factory):
    """Return small audits of systems, by what they show; their names are hostile."""
    folder, runs = tmp_path_factory.mktemp("systems"), {}
    for name, (system, claim, trials, more) in SYSTEMS.items():
        settings = Settings(trials=trials, seed=5)
        audit_system(system, None, claim, settings, folder=folder / name, name=f"{name} {HOSTILE}", **more)
        runs[name] = Run.open(folder / name)
    return runs


RUNS = {
    "halved": ({"mechanism.q": 0.5, "one_run.coins": "known"}, 3.0, 0.5),
    "known": ({"mechanism.q": 0.5, "one_run.coins": "known"}, 1.0, 0.5),
    "fair": ({"mechanism.q": 1.0, "one_run.coins": "fair"}, 1.0, 1.0),
}
"""Settings of an audit of one run, what its noise is divided by, and its sampler's rate."""


@pytest.fixture(scope="session")
def one_runs(world, tmp_path_factory):
    """Return judged runs of systems with a hostile name, by what they are."""
    folder, runs = tmp_path_factory.mktemp("one-runs"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        for name, (given, noise, rate) in RUNS.items():
            flags = {
                "users.source": str(world / "users.csv"),
                "bank.source": str(world / "bank.csv"),
                "encoder.name": "hashing",
                "mechanism.k": 3,
                "system.one_run": True,
                "system.rounds": 2,
                "system.name": f"{name} {HOSTILE}",
                "one_run.share": 0.6,
                "run.seed": 4,
            }
            design_one_run(resolve(flags=flags | given), folder / name, command=f"canarybank design {HOSTILE}")
            runs[name] = _released_once(folder / name, noise, rate)
    return runs


def _released_once(folder, noise, rate):
    """Make the releases of one run of a system with nobody in it but the canaries, and judge them."""
    plant, rng = Run.open(folder).one_run, np.random.default_rng(6)
    places, given, eligible = (np.array(each) for each in (plant.positions, plant.contributions, plant.eligible))
    took = eligible[:, None] & (rng.random((len(eligible), plant.claim.rounds)) < rate)
    values, coins = ["round,position,value"], ["canary,round"]
    for number in range(plant.claim.rounds):
        released = given * took[:, number, None] + rng.normal(0.0, plant.claim.mechanism.noise / noise, given.shape)
        pairs = zip(places.ravel().tolist(), released.ravel().tolist(), strict=True)
        values += [f"{number + 1},{place},{value!r}" for place, value in pairs]
        coins += [f"{plant.names[i]},{number + 1}" for i in np.flatnonzero(took[:, number])]
    (folder.parent / "values.csv").write_text("\n".join(values) + "\n")
    (folder.parent / "coins.csv").write_text("\n".join(coins) + "\n")
    told = {"coins": folder.parent / "coins.csv"} if plant.needs_coins else {}
    return score_one_run(folder, folder.parent / "values.csv", any_time=True, **told)


@pytest.fixture(scope="session")
def certified(audited, answering, tmp_path_factory, hostile):
    """Return a small evolution that carried its own canaries, with what its probes cost."""
    folder = tmp_path_factory.mktemp("certified")
    flags = audited | {"evolve.audit": "", "evolve.audit_one_run": True, "one_run.share": 0.5, "evolve.share": 0.3}
    with answering(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        return run_evolution(resolve(flags=flags), folder / "run", command=f"canarybank evolve {hostile}")


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    """Return a real browser; without one the test is skipped, and says so."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: the page was NOT opened in a browser")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: the page was NOT opened in a browser"
    )
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser):
    """Return a function that opens a page and afterwards checks that it kept to itself."""
    contexts, noise, requests, paths = [], [], [], set()

    def open_page(path, **given):
        paths.add(path.as_uri())
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **given})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert noise == []
    assert set(requests) <= paths


# A text that leaves its drawing, or covers another text of it.
MISPLACED = """() => [...document.querySelectorAll('svg')].filter(svg => svg.checkVisibility()).flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  const covers = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6;
  const outside = boxes.filter(([_, own]) =>
    own.left < frame.left - 1 || own.right > frame.right + 1 || own.bottom > frame.bottom + 1);
  const covering = boxes.filter(([_, own], i) => boxes.slice(0, i).some(([_, other]) => covers(own, other)));
  return [...outside, ...covering].map(([text, _]) => text);
})"""
# The widest font that a system has by default comes with matplotlib, so it is here whatever the machine has installed.
FONTS = Path(get_data_path()) / "fonts" / "ttf"
WIDEST = "".join(
    f"@font-face {{ font-family: Widest; font-weight: {weight}; "
    f"src: url(data:font/ttf;base64,{base64.b64encode((FONTS / name).read_bytes()).decode()}) }}\n"
    for weight, name in (("1 500", "DejaVuSans.ttf"), ("501 1000", "DejaVuSans-Bold.ttf"))
)


def in_widest_font(page, selector, font="Widest"):
    """Show what a selector names in a font, after the widest one is loaded."""
    page.add_style_tag(content=f"{WIDEST} {selector} {{ font-family: {font} !important }}")
    assert page.evaluate("document.fonts.load('13px Widest').then(found => found.length)") == 1
    page.evaluate("document.fonts.load('600 13px Widest')")


@pytest.fixture(scope="session")
def widened():
    """Return a function that shows a whole page in the widest font."""
    return lambda page: in_widest_font(page, "*")


@pytest.fixture(scope="session")
def misplaced():
    """Return a function that gives the drawn texts which leave their drawing or cover one another in a font."""

    def find(page, font=None):
        if font is not None:
            in_widest_font(page, "svg text", font)
        return page.evaluate(MISPLACED)

    return find
