from pathlib import Path

import pytest

from canarybank.systems import ZOO

PAGE = Path(__file__).parents[2] / "docs" / "zoo.md"


def test_without_names_every_system_is_listed_from_the_record(cli):
    outcome = cli("zoo")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert [name for name in ZOO if name not in lines] == []
    assert all(" ".join(system.blind.split()) in " ".join(outcome.out.split()) for system in ZOO.values())


def test_the_page_holds_the_listing_as_it_is_printed(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert f"```text\n$ canarybank zoo\n{cli('zoo').out}```\n" in PAGE.read_text(encoding="utf-8")


def test_the_listing_as_a_document_has_what_the_lines_have(cli):
    document = cli("zoo", "--json").document
    assert [system["name"] for system in document["listing"]] == list(ZOO)
    restarted = document["listing"][-1]
    assert restarted["caught_by"] == {"independence": 100}
    assert restarted["false_alarms"] is None
    assert document["listing"][0]["false_alarms"]["rate"] == pytest.approx(0.051)
    assert (document["seed"], document["alpha"]) == (0, 0.05)


def test_systems_are_audited_by_name(cli, tmp_path):
    words = ("zoo", "generator-restarted", "honest", "--runs", "20,40", "--repeats", "2", "--workers", "1", "--quiet")
    outcome = cli(*words, "--record", tmp_path / "zoo.json")
    assert outcome.code == 0
    assert "generator-restarted: how many of 2 audits caught it" in outcome.out
    assert "honest   0 of 4 (at most 2 allowed)  0 of 4 (at most 1 allowed)" in outcome.out
    assert (tmp_path / "zoo.json").exists()
    document = cli(*words, "--json").document
    assert [each["runs"] for each in document["measurement"][0]["cells"]] == [20]
    assert document["measurement"][0]["caught_by"] == {"independence": 20}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("unicorn",), "The zoo has no 'unicorn'; `canarybank zoo` lists its systems."),
        (("honest", "--runs", "few"), "Give numbers of runs such as 100,300,1000, not 'few'."),
        (("honest", "--repeats", "0"), "--repeats"),
    ],
)
def test_what_is_not_there_is_said(cli, words, said):
    outcome = cli("zoo", *words)
    assert outcome.code == 2
    assert said in outcome.err
