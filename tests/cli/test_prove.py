import json

import pytest

from canarybank.mechanism import bank_root

TEXTS = ["one text", "a second", "the third", "a fourth", "and a fifth"]


@pytest.fixture
def bank(tmp_path):
    (tmp_path / "bank.txt").write_text("\n".join(TEXTS) + "\n")
    return "bank.txt"


@pytest.fixture
def proof(cli, bank, tmp_path):
    """Write the proof of the third entry, and return the bank's root."""
    made = cli("prove", bank, "--entry", "2", "--json")
    (tmp_path / "proof.json").write_text(made.out)
    return made.document["root"]


def test_the_root_is_that_of_the_texts_in_their_order(cli, bank):
    made = cli("prove", bank, "--json")
    assert (made.code, made.document["root"], made.document["size"]) == (0, bank_root(TEXTS), 5)
    assert bank_root(TEXTS) in cli("prove", bank).out
    assert cli("prove", "embedded", "--json").document["size"] > 1000


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl", "parquet"])
def test_every_row_of_a_file_is_an_entry_at_its_place(cli, tmp_path, kind):
    import polars as pl

    texts = ["one", "two", "one", " ", "three ", "three"]
    rows = {"txt": texts, "csv": ["text", *texts], "jsonl": [json.dumps({"text": text}) for text in texts]}
    if kind == "parquet":
        pl.DataFrame({"text": texts}).write_parquet(tmp_path / "bank.parquet")
    else:
        (tmp_path / f"bank.{kind}").write_text("\n".join(rows[kind]) + "\n")
    made = cli("prove", f"bank.{kind}", "--entry", "5", "--json").document
    assert (made["root"], made["size"], made["text"]) == (bank_root(texts), 6, "three")
    assert "1 repeat an earlier one and 1 are blank" in made["notes"][0]
    assert cli("prove", "embedded", "--json").document["notes"] == []


def test_a_proof_holds_for_its_text_alone(cli, bank, proof, tmp_path):
    right = cli("prove", "--check", "proof.json", "--root", proof, "--json")
    assert (right.code, right.document["holds"], right.document["text"]) == (0, True, "the third")
    assert cli("prove", bank, "--check", "proof.json", "--root", proof).code == 0
    (tmp_path / "sent.txt").write_text("\n".join([*TEXTS[:2], "for you alone", *TEXTS[3:]]) + "\n")
    wrong = cli("prove", "sent.txt", "--check", "proof.json", "--root", proof)
    assert wrong.code == 1
    assert "does NOT hold" in wrong.out
    assert "for you alone" in wrong.out
    document = json.loads((tmp_path / "proof.json").read_text())
    (tmp_path / "proof.json").write_text(json.dumps(document | {"position": 3}))
    assert cli("prove", "--check", "proof.json", "--root", proof).code == 1


@pytest.mark.usefixtures("proof")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Name a bank"),
        (("nowhere.txt",), "There is no bank 'nowhere.txt'"),
        (("bank.txt", "--entry", "5"), "no entry 5 in a bank of 5"),
        (("bank.txt", "--round", "1"), "Only the folder of an evolution has rounds"),
        (("bank.txt", "--check", "proof.json"), "give both --check and --root"),
        ((".",), "holds no evolution"),
        (("--check", "bank.txt", "--root", "0" * 64), "bank.txt"),
        (("--check", "short.json", "--root", "0" * 64), "names no text"),
        (("short.txt", "--check", "proof.json", "--root", "0" * 64), "it is of another bank"),
        (("long.txt", "--check", "proof.json", "--root", "0" * 64), "of a bank of 5 entries, and 'long.txt' has 6"),
        (("--check", "binary.json", "--root", "0" * 64), "'binary.json' is not JSON"),
        (("--check", "empty.json", "--root", "0" * 64), "'empty.json' is not JSON"),
        (("--check", "list.json", "--root", "0" * 64), "holds no proof"),
        (("--check", "proof.json", "--root", "nonsense"), "64 hexadecimal digits, not 'nonsense'"),
        (("--check", "proof.json", "--root", "0" * 65), "64 hexadecimal digits"),
        (("--check", "proof.json", "--root", "0" * 64, "--entry", "2"), "leave out --entry"),
    ],
)
def test_refuses_what_cannot_be_proved(cli, tmp_path, words, said):
    (tmp_path / "short.txt").write_text("\n".join(TEXTS[:2]))
    (tmp_path / "long.txt").write_text("\n".join([*TEXTS, "a sixth"]))
    for name, data in (("binary", b"\xff\xfe\x80\x00\x81"), ("empty", b""), ("list", b"[]")):
        (tmp_path / f"{name}.json").write_bytes(data)
    document = json.loads((tmp_path / "proof.json").read_text())
    (tmp_path / "short.json").write_text(json.dumps({k: v for k, v in document.items() if k != "text"}))
    outcome = cli("prove", *words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
