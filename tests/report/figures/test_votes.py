from copy import deepcopy
from xml.etree import ElementTree as ET

from canarybank.report import vote_figure


def test_bars_are_as_long_as_their_shares(attack):
    root = ET.fromstring(vote_figure(attack, "v").svg)  # noqa: S314, our own markup
    boxes = [float(box.get("width")) for box in root.findall("rect") if box.get("class") == "bar-canary"][:-1]
    shares = [entry["share"] for entry in attack["evidence"]["votes"]["entries"]]
    assert all(abs(w / boxes[0] - s / shares[0]) < 5e-3 for w, s in zip(boxes, shares, strict=True) if s)


def test_entries_without_texts_are_named_by_position(attack):
    bare = deepcopy(attack)
    for entry in bare["evidence"]["votes"]["entries"]:
        entry["text"] = None
    figure = vote_figure(bare, "v")
    assert {row[-1] for row in figure.rows} == {"—"}
    assert f"#{bare['evidence']['votes']['entries'][0]['position']}<" in figure.svg


def test_no_entry_is_no_failure(attack):
    empty = deepcopy(attack)
    empty["evidence"]["votes"]["entries"] = []
    assert vote_figure(empty, "v").rows == ()
