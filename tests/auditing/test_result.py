from dataclasses import replace
from html.parser import HTMLParser

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from canarybank.auditing import audit

mpl.use("Agg")


@pytest.fixture(scope="module")
def result(people, bank, mechanism, sizes):
    return audit(people, bank, mechanism, "exact", trials=5_000, sizes=sizes, canaries=2)


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        del attrs
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


def test_a_frame_holds_a_row_for_each_canary(result):
    frame = result.to_polars()
    assert frame["canary"].to_list() == [canary.canary for canary in result.canaries]
    assert frame["bound"].to_list() == [canary.bound.epsilon for canary in result.canaries]
    assert frame["tp"].to_list() == [canary.counts.tp for canary in result.canaries]
    assert frame["exact_mechanism"].unique().to_list() == [result.ladder.mechanism.epsilon]


def test_html_shows_the_claim_with_what_it_stands_on(result):
    text = " ".join(read(result._repr_html_()).text)
    for part in (f"{result.headline.epsilon:.3f}", "95% confidence", "paper", "5,000 trials", "2 canaries", "1e-05"):
        assert part in text
    assert all(rung.name in text for rung in result.ladder.rungs)


def test_html_escapes_what_users_wrote(result):
    named = replace(result.only, attack="<script>alert(1)</script>")
    hostile = replace(result, attacks=(named,), notes=("</div><img src=x>",))
    reader = read(hostile._repr_html_())
    assert not {"script", "img"} & set(reader.tags)
    assert "<script>alert(1)</script>" in reader.text
    assert reader.tags.count("tr") == 7


def test_the_plot_has_a_bar_for_each_rung(result):
    axes = result.plot()
    bars = axes.containers[-1]
    assert [bar.get_width() for bar in bars] == [rung.epsilon for rung in result.ladder.rungs]
    assert [label.get_text() for label in axes.get_yticklabels()] == [rung.name for rung in result.ladder.rungs]
    assert axes.yaxis_inverted()
    plt.close(axes.figure)


def test_the_plot_goes_to_given_axes(result):
    figure, axes = plt.subplots()
    assert result.plot(axes) is axes
    plt.close(figure)


def test_the_words_of_a_result_name_its_claim(result):
    assert repr(result).startswith(f"AuditResult(exact: epsilon >= {result.headline.epsilon:.3f} at 95% by paper")
