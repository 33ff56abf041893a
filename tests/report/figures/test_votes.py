from copy import deepcopy

from drawn_figures import bars, words

from canarybank.report import vote_figure


def test_bars_are_as_long_as_their_shares(attack):
    drawn = [bar.get_width() for bar in bars(vote_figure(attack, "v"), "the canary")]
    assert drawn == [100 * entry["share"] for entry in attack["evidence"]["votes"]["entries"]]


def test_entries_without_texts_are_named_by_position(attack):
    bare = deepcopy(attack)
    for entry in bare["evidence"]["votes"]["entries"]:
        entry["text"] = None
    figure = vote_figure(bare, "v")
    assert {row[-1] for row in figure.rows} == {"—"}
    assert f"#{bare['evidence']['votes']['entries'][0]['position']}" in words(figure)


def test_no_entry_is_no_failure(attack):
    empty = deepcopy(attack)
    empty["evidence"]["votes"]["entries"] = []
    assert list(vote_figure(empty, "v").rows) == []
    assert "<svg" in vote_figure(empty, "v").svg
