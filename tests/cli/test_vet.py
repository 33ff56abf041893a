import json

import numpy as np
import pytest

from canarybank.attack import nonces
from canarybank.defend import Vetting
from canarybank.encode import load_encoder
from canarybank.evolution import FolderArchive, Population, Probes, Published
from canarybank.flow import embedded_bank
from canarybank.mechanism import Mechanism, bank_root
from canarybank.store import hash_json, write_checked

TEXTS = embedded_bank().texts[:300]
PLANTED = {40: nonces(1, np.random.default_rng(1))[0], 170: "<script>alert(1)</script> qZ9kXw7 vBn3TjQx ||%% 7Yq"}
PLACES = (3, 50, 99)
PLANTED |= dict(zip((60, 90, 210), nonces(3, np.random.default_rng(2)), strict=True))


@pytest.fixture
def shaped(tmp_path):
    texts = [PLANTED.get(place, text) for place, text in enumerate(TEXTS)]
    path = tmp_path / "bank.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_the_embedded_bank_passes_and_the_verdict_states_its_false_alarm_rate(cli):
    outcome = cli("vet", "--json")
    assert outcome.code == 0
    document = outcome.document
    assert (document["shaped"], document["flagged"], document["entries"]) == (False, [], 2048)
    judged = Vetting.load().judged["bank"]
    assert document["false_alarms"]["upper"] == pytest.approx(judged.upper)
    assert document["false_alarms"]["banks"] == judged.banks
    assert len(document["worst"]) == 10
    printed = " ".join(cli("vet", "--quiet").out.split())
    assert "Nothing found" in printed
    assert f"at most {judged.upper:.1%}" in printed


def test_a_shaped_bank_gives_exit_code_1_and_names_what_was_planted(cli, shaped):
    outcome = cli("vet", shaped, "--json", "--page", "page.html")
    assert outcome.code == 1
    document = outcome.document
    assert document["shaped"] is True
    flagged = {each["position"]: each for each in document["flagged"]}
    assert set(PLANTED) <= set(flagged)
    assert all(flagged[place]["text"] == text for place, text in PLANTED.items())
    assert all(flagged[place]["worst_measure"] == "surprise" for place in PLANTED)
    assert document["page"] == "page.html"


def test_the_page_shows_the_worst_entries_and_runs_nothing_of_theirs(cli, shaped, tmp_path):
    assert cli("vet", shaped, "--quiet", "--page", "page.html").code == 1
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script>alert(1)</script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert all(PLANTED[place] in page for place in (40, 60, 90, 210))
    assert f"at most {Vetting.load().judged['bank'].upper:.1%}" in page
    assert cli("vet", shaped, "--quiet", "--page", "again.html").code == 1
    assert (tmp_path / "again.html").read_text("utf-8") == page


def test_public_text_is_read_and_named(cli, shaped, tmp_path):
    (tmp_path / "public.txt").write_text("\n".join(embedded_bank().texts[300:700]))
    document = cli("vet", shaped, "--public", "public.txt", "--json").document
    assert document["public"] == "public.txt"
    assert "no-votes" in {each["measure"] for each in document["measures"]}
    assert document["false_alarms"]["banks"] == Vetting.load().judged["bank+public"].banks


@pytest.mark.parametrize("ending", ["", "  "])
def test_exact_copies_of_one_fluent_sentence_are_seen_where_they_stand(cli, tmp_path, ending):
    copy = "My neighbour keeps two goats behind the old post office."
    lines = [*TEXTS[:150], *(copy + ending * each for each in range(6)), *TEXTS[150:200]]
    (tmp_path / "bank.txt").write_text("\n".join(lines) + "\n")
    outcome = cli("vet", "bank.txt", "--json")
    assert (outcome.code, outcome.document["entries"]) == (1, 206)
    assert {each["position"] for each in outcome.document["flagged"]} == set(range(150, 156))
    assert any("5 repeat an earlier one and 0 are blank" in note for note in outcome.document["notes"]) == (not ending)
    assert any("hold no text twice" in note for note in outcome.document["notes"]) == (not ending)


@pytest.fixture
def evolved(tmp_path):
    """Lay out an evolution that made two releases; probes stand in its second bank and in the one nobody voted on."""
    encode = load_encoder("wordllama").encode
    archive = FolderArchive(tmp_path / "run" / "evolution", insecure_seed=3)
    texts = nonces(3, np.random.default_rng(3))
    for number, probes in enumerate((None, Probes(PLACES, encode(texts), texts), None)):
        archive.put_bank(number, Published.of(Population.start(TEXTS, encode(TEXTS)), probes, {}))
        if number < 2:
            archive.put_release(number, np.zeros(len(TEXTS)))
    declared = {"mechanism": Mechanism(k=3).to_json(), "insecure_seed": 3}
    write_checked(archive.folder / "run.json", declared)
    return "run"


def test_vet_and_prove_mean_the_same_rounds(cli, evolved):
    for folder in (evolved, f"{evolved}/evolution"):
        first, second = (cli("vet", folder, *words, "--json") for words in ((), ("--round", "2")))
        assert (first.code, second.code) == (0, 1)
        assert {each["position"] for each in second.document["flagged"]} >= set(PLACES)
        assert second.document["notes"][0] == "The bank of round 2, as voters saw it."
        for number, words, seen in ((0, (), first), (1, ("--round", "2"), second)):
            proven = cli("prove", folder, *words, "--json").document
            texts = FolderArchive("run/evolution").bank(number).bank.texts
            assert (proven["root"], seen.document["hash"]) == (bank_root(texts), hash_json(list(texts)))
    for command in ("vet", "prove"):
        missing = cli(command, evolved, "--round", "3")
        assert missing.code == 2
        assert "has no round 3 with a release; rounds count from 1, and the last one is 2" in " ".join(
            missing.err.split()
        )
        assert "it must be >= 1" in cli(command, evolved, "--round", "0").err


def test_the_bank_of_a_run_is_vetted_for_the_votes_of_that_run(cli, evolved):
    of_run, for_3, for_7 = (cli("vet", evolved, *words, "--json") for words in ((), ("--k", "3"), ("--k", "7")))
    assert of_run.document == for_3.document != for_7.document


@pytest.mark.parametrize(("words", "used"), [(("--encoder", "hashing"), "hashing and k = 5"), (("--k", "4"), "k = 4")])
def test_a_verdict_states_no_false_alarm_rate_for_what_was_not_judged(cli, shaped, tmp_path, words, used):
    document = cli("vet", shaped, *words, "--page", "page.html", "--json").document
    assert f"{used} the false-alarm rate is not known" in document["notes"][0]
    assert document["false_alarms"] is None
    for said in (document["statement"], (tmp_path / "page.html").read_text("utf-8").partition('id="glossary"')[0]):
        assert "is not known with these settings" in said
        assert "at most" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.jsonl",), "There is no bank 'none.jsonl'"),
        (("embedded", "--round", "1"), "Only the folder of an evolution has rounds"),
        (("empty",), "holds no evolution"),
        (("small.txt",), "too small to be vetted"),
        (("embedded", "--k", "1"), "it must be >= 2"),
        (("bank.txt", "--k", "60"), "where k is 60: an entry is compared with the others, and that takes at least 119"),
    ],
)
def test_what_cannot_be_vetted_is_refused_in_words(cli, tmp_path, words, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "small.txt").write_text("\n".join(TEXTS[:20]))
    (tmp_path / "bank.txt").write_text("\n".join(TEXTS[:100]))
    outcome = cli("vet", *words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
