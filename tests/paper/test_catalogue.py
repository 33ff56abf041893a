import pytest

from canarybank.errors import ConfigError
from canarybank.paper import PIECES, finished_pieces, make_all


def test_the_pieces_stand_in_the_papers_order():
    assert list(PIECES) == ["main", "full", "ablations", "multiround", "encoders"]


def test_nothing_is_finished_before_it_is_made(order):
    assert finished_pieces(order()) == ()


def test_all_names_what_it_leaves_out_but_not_when_nothing_can_be_made(order, monkeypatch):
    made, main = [], PIECES["main"]

    def piece(name):
        def make(asked):
            made.append(name)
            if name != "main":
                raise ConfigError(f"{name} lacks something.")
            return main(asked)

        return make

    names = {name: piece(name) for name in ("main", "full")}
    monkeypatch.setattr("canarybank.paper.catalogue.PIECES", names)
    asked = order()
    pieces, left = make_all(asked)
    assert [each.name for each in pieces] == ["main"]
    assert left == ("full was left out: full lacks something.",)
    assert [each.name for each in finished_pieces(asked)] == ["main"]
    monkeypatch.setattr("canarybank.paper.catalogue.PIECES", {"full": names["full"]})
    with pytest.raises(ConfigError, match="full lacks"):
        make_all(asked)
