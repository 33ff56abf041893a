"""Look at one page of each kind as readers do: on a telephone, a tablet and a desk, by day and by night."""

import json
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from canarybank.attack import nonces
from canarybank.cli import main
from canarybank.flow import embedded_bank
from canarybank.report import write_pieces, write_report

WIDTHS, SCHEMES = (390, 820, 1280), ("light", "dark")
KINDS = ("audit", "evolution", "certified", "system", "dependent", "one run", "paper", "sweep", "vet", "runs")
PICTURES = os.environ.get("SCREENSHOTS")
"""Where to leave a picture of every page, to be looked at."""

# Elements whose own text is cut by their box or by a frame around it, or that leave the screen. A frame that scrolls
# must say so in words beside it.
CUT = """() => {
  const frames = [...document.querySelectorAll('.plot, .scroll, pre')].filter(one => one.checkVisibility());
  const silent = frames.filter(one => !one.matches('pre') && one.scrollWidth > one.clientWidth + 1 &&
    (one.matches('.plot') ? one.nextElementSibling : one.previousElementSibling).hidden);
  const loud = [...document.querySelectorAll('.swipe')].filter(one => one.checkVisibility()).filter(one => {
    const frame = one.previousElementSibling?.matches('.plot') ? one.previousElementSibling : one.nextElementSibling;
    return frame.scrollWidth <= frame.clientWidth + 1;
  });
  const own = [...document.querySelectorAll('body *:not(script, style, svg, svg *, .unseen, .skip)')].filter(one =>
    one.checkVisibility() && [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()));
  const cut = own.filter(one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const text = range.getBoundingClientRect();
    const inFrame = one.closest('.plot, .scroll, pre');
    let block = one;
    while (['inline', 'contents'].includes(getComputedStyle(block).display)) block = block.parentElement;
    const box = block.getBoundingClientRect();
    const leaves = text.left < box.left - 2 || text.right > box.right + 2;
    return leaves || (!inFrame && (text.right > innerWidth + 1 || text.left < -1));
  });
  return [...silent, ...loud, ...cut].map(one => one.outerHTML.slice(0, 160));
}"""

# Figures that need scrolling, and how high their smallest text is: a text drawn as a path is one of 9 points.
DRAWN = """() => {
  const seen = css => [...document.querySelectorAll(css)].filter(one => one.checkVisibility());
  const scale = svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const texts = seen('svg text').map(text => parseFloat(getComputedStyle(text).fontSize) * scale(text.closest('svg')));
  const paths = seen('.broad svg').map(svg => 9 * scale(svg));
  return {
    wide: seen('.plot').filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.parentElement.id),
    smallest: Math.min(99, ...texts, ...paths),
  };
}"""


@pytest.fixture(scope="module")
def pages(request, hostile, tmp_path_factory):
    """Return a function that writes the page of a kind, once."""
    folder, written = tmp_path_factory.mktemp("pages"), {}
    runs = {
        "audit": lambda: request.getfixturevalue("run"),
        "evolution": lambda: request.getfixturevalue("evolved"),
        "certified": lambda: request.getfixturevalue("certified"),
        "system": lambda: request.getfixturevalue("systems")["other"],
        "dependent": lambda: request.getfixturevalue("systems")["dependent"],
        "one run": lambda: request.getfixturevalue("one_runs")["known"],
    }

    def write(kind):
        place = folder / kind
        if kind in runs:
            return write_report(runs[kind](), place)[0]
        if kind == "paper":
            return write_pieces([request.getfixturevalue(name) for name in ("table", "rounds")], place)
        if kind == "vet":
            place.mkdir()
            bank = place / "bank.jsonl"
            texts = [*embedded_bank().texts[:300], hostile, *nonces(2, np.random.default_rng(3))]
            bank.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
            assert main(["vet", str(bank), "--page", str(place / "vet.html"), "--quiet"]) in {0, 1}
            return place / "vet.html"
        if kind == "sweep":
            return write_pieces([request.getfixturevalue("grid")], place, title="a sweep")
        systems = Path(request.getfixturevalue("systems")["stands"].folder).parent
        assert main(["runs", "page", str(systems), "--quiet"]) == 0
        return systems / "index.html"

    def page(kind):
        if kind not in written:
            written[kind] = write(kind)
        return written[kind]

    return page


def looked_at(opened, widened, misplaced, path, width, scheme):
    page = opened(path, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    widened(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.wait_for_timeout(50)
    assert page.evaluate(CUT) == []
    assert misplaced(page) == []
    drawn = page.evaluate(DRAWN)
    assert drawn["smallest"] >= 7
    if width < 400:
        assert drawn["wide"] == []
    if PICTURES:
        kind = path.parent.name.replace(" ", "-")
        page.screenshot(path=f"{PICTURES}/{kind}-{width}-{scheme}.png", full_page=True)


@pytest.mark.browser
def test_no_text_of_an_audit_is_cut_on_a_telephone(opened, widened, misplaced, pages):
    looked_at(opened, widened, misplaced, pages("audit"), 390, "light")


@pytest.mark.browser
@pytest.mark.face
@pytest.mark.parametrize(("kind", "width", "scheme"), list(product(KINDS, WIDTHS, SCHEMES)))
def test_no_text_is_cut_on_any_page_at_any_width(opened, widened, misplaced, pages, kind, width, scheme):
    looked_at(opened, widened, misplaced, pages(kind), width, scheme)
