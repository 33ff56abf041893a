"""Run the command line against a recording server, and look for users' records and labels in what reaches it."""

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from canarybank.cli import main

pytest.importorskip("openai")

USERS, RECORDS = 30, 6
DECLARED = ("weather", "travel")
UNDECLARED_LABEL = "zqlabel clinic"
WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
AUDIT = {
    "encoder.name": "hashing",
    "mechanism.k": 3,
    "mechanism.q": 0.5,
    "attack.probes": 8,
    "attack.pool": 24,
    "attack.similarity": 0.1,
    "cohorts.canaries": 2,
    "cohorts.shared": True,
    "audit.trials": 300,
    "audit.threshold": "analytic",
    "users.cap": RECORDS,
    "run.workers": 1,
}
EVOLVE = {
    "encoder.name": "hashing",
    "mechanism.k": 3,
    "mechanism.q": 0.5,
    "users.cap": RECORDS,
    "evolve.rounds": 2,
    "evolve.share": 0.5,
    "evolve.near": 1.0,
}


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """Keep the cache apart, work in an empty folder, and let no variable name a server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-traffic-0123456789")


def marker(user, record):
    """Return a word that only one record of one user has."""
    return f"zq{user:02d}x{record}"


@pytest.fixture
def people(tmp_path):
    """Write users whose every record has a word of its own; one user's label is of a kind that nobody declares."""
    rng = np.random.default_rng(5)
    lines = ["user,text,topic"]
    for user in range(USERS):
        for record in range(RECORDS):
            topic = UNDECLARED_LABEL if user == 7 else DECLARED[record % 2]
            lines.append(f"u{user:02d},the {' '.join(rng.choice(WORDS, size=5))} {marker(user, record)},{topic}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return {"users.source": "people.csv", "users.label": "topic"}


@pytest.fixture
def writing(server, completed):
    """Let the server write a new sentence for each request, around the record where one is to be reworded."""

    def behave(handler, asked):
        prompt, rng = asked["messages"][-1]["content"], np.random.default_rng(asked["seed"])
        reworded = re.findall(r"(the [a-z ]+ zq\d+x\d)", prompt)
        words = " ".join(rng.choice(WORDS, size=6))
        text = f"well {reworded[0]} {asked['seed'] % 9973} or so" if reworded else f"I saw the {words} today."
        body = completed(text)
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    server.usual = behave
    return {"generator.kind": "openai", "generator.model": "writer", "generator.base_url": server.url}


GENERATED = {"bank.source": "generate", "bank.size": 40, "bank.near": 1.0, "bank.labels": ",".join(DECLARED)}


def run(*words, **settings):
    """Run a command on a file with these settings; return its exit code and what it said."""
    sections = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    lines = [line for section, rows in sections.items() for line in (f"[{section}]", *rows)]
    Path("settings.toml").write_text("\n".join(lines) + "\n")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "settings.toml"])
    return code, out.getvalue(), " ".join(err.getvalue().split())


def done(*words, **settings):
    """Run a command that must come to its end, and return what it printed."""
    code, out, err = run(*words, **settings)
    assert code == 0, err
    return out


def held(server):
    """Return the markers of records that stand in any request, be it in its line, headers or body."""
    return sorted(set(re.findall(r"zq\d\dx\d", "\n".join(server.traffic))))


def assert_nothing_private(server):
    assert server.traffic
    assert held(server) == []
    assert not any(UNDECLARED_LABEL in each for each in server.traffic)


def only_generator(folder):
    (record,) = json.loads((folder / "manifest.json").read_text())["generators"]
    return record


def test_bank_sends_declared_labels_alone(server, writing, people):
    done("bank", "make", "--quiet", **writing, **people, **GENERATED)
    assert_nothing_private(server)
    assert all(any(label in each for label in DECLARED) for each in server.traffic)


def test_an_audit_without_permission_sends_no_record_and_says_what_it_skipped(server, writing, people, tmp_path):
    printed = json.loads(done("audit", "--folder", "run", "--json", **writing, **people, **GENERATED, **AUDIT))
    assert_nothing_private(server)
    assert not any("paraphrase" in each["attack"] for each in printed["attacks"])
    assert any(f"send users' records to {server.url}; set attack.send_records" in note for note in printed["notes"])
    record = only_generator(tmp_path / "run")
    assert (record["server"], record["model"], record["send_records"]) == (server.url, "writer", False)
    assert (record["requests"], record["requests_with_records"], record["records"]) == (len(server.traffic), 0, 0)
    for page in ("report.html", "summary.md"):
        shown = (tmp_path / "run" / page).read_text().replace("\\", "").replace("&#39;", "'")
        assert (
            f"writer at {server.url}: {len(server.traffic)} requests sent, none to paraphrase a user's record" in shown
        )


def test_with_permission_the_records_that_are_sent_are_those_that_were_announced(server, writing, people, tmp_path):
    settings = writing | people | GENERATED | AUDIT | {"attack.send_records": True, "bank.source": "embedded"}
    settings |= {"attack.names": "exact,paraphrase,paraphrase-norm", "bank.size": 60, "bank.labels": []}
    planned = json.loads(done("plan", "--json", **settings))["generator"]
    said = " ".join(done("plan", **settings).split())
    assert server.traffic == []
    assert (planned["server"], planned["records"], planned["owners"]) == (server.url, 2 * RECORDS, 2)
    assert planned["calls"] == planned["calls_with_records"] == 2 * 32  # pools of 24, three usable answers in four
    assert f"to {server.url}: 64 requests, 64 of them with a user's record" in said
    assert "up to 12 different records of 2 users" in said
    done("audit", "--folder", "run", "--quiet", **settings)
    assert len(held(server)) == planned["records"]
    record = only_generator(tmp_path / "run")
    assert record["requests"] == record["requests_with_records"] == len(server.traffic)
    assert (record["records"], record["send_records"], record["server"]) == (12, True, server.url)
    for page in ("report.html", "summary.md"):
        shown = (tmp_path / "run" / page).read_text().replace("\\", "").replace("&#39;", "'")
        assert f"{len(server.traffic)} of them with a user's record (12 different ones)" in shown
    again = json.loads(done("plan", "--json", "--folder", "run", **settings))["generator"]
    assert (again["server"], again["calls"], again["records"]) == (None, 0, 0)  # it is finished


def test_a_real_evolution_sends_candidates_and_declared_labels_alone(server, writing, people, tmp_path):
    done("evolve", "--folder", "run", "--quiet", **writing, **people, **GENERATED, **EVOLVE)
    assert_nothing_private(server)
    assert len(server.traffic) > 40 + 2 * 20 - 1
    record = only_generator(tmp_path / "run")
    assert (record["server"], record["requests"], record["records"]) == (server.url, None, 0)
    page = (tmp_path / "run" / "report.html").read_text().replace("&#39;", "'")
    assert f"writer at {server.url}: no request is made from users' records" in page


UNDECLARED = {"bank.source": "generate", "bank.size": 40, "bank.near": 1.0}
COMMANDS = {
    "bank": ("bank", "make"),
    "audit": ("audit",),
    "plan": ("plan",),
    "evolve": ("evolve",),
    "sweep": ("sweep", "--over", "mechanism.q=0.1,0.2"),
    "reproduce": ("reproduce", "main", "--scale", "small"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_labels_that_nobody_declared_reach_no_server(server, writing, people, command):
    settings = writing | people | UNDECLARED | (EVOLVE if command == "evolve" else AUDIT)
    code, _, err = run(*COMMANDS[command], "--quiet", **settings)
    assert (code, server.traffic) == (2, [])
    assert "no labels are declared. Set bank.labels" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_users_own_file_is_no_bank_and_shows_no_examples(server, writing, people, command):
    Path("texts.csv").symlink_to("people.csv")
    settings = writing | people | GENERATED | (EVOLVE if command == "evolve" else AUDIT)
    for key in ("bank.source", "bank.examples"):
        code, _, err = run(*COMMANDS[command], "--quiet", **(settings | {key: "texts.csv"}))
        assert (code, server.traffic) == (2, [])
        assert f"{key} is 'texts.csv', and that is the file of users." in err


def test_labels_of_usable_records_are_declared_too(server, writing, people):
    done("bank", "make", "--quiet", **writing, **people, **UNDECLARED, **{"users.labels": "weather"})
    assert_nothing_private(server)
    assert all("weather" in each and "travel" not in each for each in server.traffic)


ASKED = {
    "audit": ("audit", AUDIT | {"attack.names": "paraphrase"}),
    "all": ("audit", AUDIT | {"attack.names": "all"}),
    "plan": ("plan", AUDIT | {"attack.names": "exact,paraphrase-norm"}),
    "evolve": (
        "evolve",
        EVOLVE | {"evolve.audit": "paraphrase", "evolve.insecure_seed": 1, "attack.probes": 8, "attack.pool": 24},
    ),
}


@pytest.mark.parametrize("case", ASKED)
def test_paraphrases_that_are_asked_for_are_refused_before_anything_is_sent(server, writing, people, case):
    command, settings = ASKED[case]
    code, _, err = run(command, "--quiet", **writing, **people, **GENERATED, **settings)
    assert (code, server.traffic) == (2, [])
    assert f"would send users' records to {server.url}, and nothing allows that. Set attack.send_records" in err


def test_an_audited_evolution_sends_its_canarys_records_with_permission(server, writing, people, tmp_path):
    command, settings = ASKED["evolve"]
    allowed = settings | AUDIT | {"attack.send_records": True, "cohorts.canaries": 1, "evolve.mauve": False}
    done(command, "--folder", "run", "--quiet", **writing, **people, **GENERATED, **(EVOLVE | allowed))
    record = only_generator(tmp_path / "run")
    assert len(held(server)) == record["records"] == RECORDS
    assert record["requests"] == len(server.traffic)


def test_arm_b_shows_no_records_without_permission(server, writing, people):
    given = writing | people | GENERATED | AUDIT | {"cohorts.evaluation": 4}
    given |= {"attack.names": "ordinary"}
    asked = ("reproduce", "full", "--scale", "small", "--prompt-b", "bank-examples", "--quiet")
    code, _, err = run(*asked, **given)
    assert (code, server.traffic) == (2, [])
    assert "Arm B shows the generator records of users outside all cohorts" in err
    assert "or give the bank's file by --bank-b" in err
    done(*asked, **given, **{"attack.send_records": True})
    assert held(server)


def test_no_key_is_written_anywhere(server, writing, people, tmp_path):
    done("audit", "--folder", "run", "--quiet", **writing, **people, **GENERATED, **AUDIT)
    assert any("sk-traffic" in each for each in server.traffic)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"sk-traffic" in path.read_bytes()] == []
