import pytest

from canarybank.errors import ConfigError
from canarybank.experiment.evolution import EvolutionRun
from canarybank.experiment.reproduce import make_piece
from canarybank.experiment.reproduce.multiround import PAPER_ROUNDS
from canarybank.experiment.reproduce.published import ROUND_THEORY

EVOLVING = {
    "generator.kind": "scripted_answers:write",
    "attack.names": "nonce-norm",
    "cohorts.canaries": 1,
    "evolve.near": 1.0,
    "evolve.share": 0.5,
    "evolve.mauve": False,
    "audit.trials": 2000,
}


@pytest.mark.usefixtures("scripted")
def test_every_prefix_is_a_cell_with_theory_exact_and_observed(order):
    asked = order(flags=EVOLVING, rounds=2)
    piece = make_piece("multiround", asked)
    assert [cell.at["rounds"] for cell in piece.cells] == [1, 2]
    assert [cell.accounted for cell in piece.cells] == list(ROUND_THEORY[:2])
    assert [round(cell.mechanism, 4) for cell in piece.cells] == [1.3347, 1.5299]
    assert all(cell.exact <= cell.mechanism + 1e-6 and cell.is_explained for cell in piece.cells)
    assert any("the paper has 8,000" in note for note in piece.notes)
    assert any("There are 2 releases" in note for note in piece.notes)
    assert "Trials are 2,000 of each hypothesis of each canary; the paper has 5,000,000." in piece.notes
    assert "The encoder is hashing; the paper's is MiniLM-L6." in piece.notes
    first, *_, last = EvolutionRun.open(asked.folder / "multiround").results.utility.figures
    went = f"recall (held-out texts that lie among candidates) from {first.recall:.3f} to {last.recall:.3f}."
    assert any(f"went from {first.precision:.3f} to {last.precision:.3f}" in n and went in n for n in piece.notes)
    before = (asked.folder / "multiround.json").read_bytes()
    assert make_piece("multiround", asked) == piece
    assert (asked.folder / "multiround.json").read_bytes() == before


def test_it_needs_a_generator(order):
    with pytest.raises(ConfigError, match="generator"):
        make_piece("multiround", order())


def test_the_papers_parameters():
    assert PAPER_ROUNDS["mechanism.sigma"] == 1.1088
    assert (PAPER_ROUNDS["evolve.rounds"], PAPER_ROUNDS["evolve.share"]) == (6, 0.05)
    assert PAPER_ROUNDS["audit.trials"] == 5_000_000
