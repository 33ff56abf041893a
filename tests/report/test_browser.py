"""Open the pages in a real browser, from a file, and use them as a reader would."""

import shutil
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from canarybank.report import write_pieces, write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return write_report(run, folder)[0]


@pytest.fixture
def visit(opened, path):
    """Return a function that opens the page of the audit."""
    return partial(opened, path)


def paper(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_page_opens_from_a_file_in_silence(visit, summary):
    page = visit()
    assert page.inner_text("h1") == summary["verdict"]["sentence"]
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script, img, iframe, object').length") == 1


@pytest.mark.parametrize(("scheme", "colour"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 28)")])
def test_the_page_follows_the_system_and_the_toggle_overrides_it(visit, scheme, colour):
    page = visit(color_scheme=scheme)
    assert paper(page) == colour
    seen = [paper(page)]
    for _ in range(3):
        page.click("#theme")
        seen.append(paper(page))
    assert seen == [colour, "rgb(255, 255, 255)", "rgb(20, 23, 28)", colour]


def column(page, table, index):
    return page.eval_on_selector_all(f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{index}].textContent)")


def test_tables_sort_by_number_and_by_name(visit):
    page = visit()
    head = page.locator("#attacks th button")
    head.nth(2).click()
    up = [float(value) for value in column(page, "attacks", 2)]
    assert up == sorted(up)
    assert page.get_attribute("#attacks th:nth-child(3)", "aria-sort") == "ascending"
    head.nth(2).click()
    assert [float(value) for value in column(page, "attacks", 2)] == up[::-1]
    head.nth(0).click()
    assert column(page, "attacks", 0) == sorted(column(page, "attacks", 0))
    assert page.get_attribute("#attacks th:nth-child(3)", "aria-sort") == "none"


def test_numbers_with_commas_and_exponents_sort_as_numbers(visit):
    page = visit()
    page.click("#figure-canaries summary")
    for index in (6, 10):
        page.locator("#data-canaries th button").nth(index).click()
        values = [float(value.replace(",", "")) for value in column(page, "data-canaries", index)]
        assert values == sorted(values)


def test_all_is_reached_by_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(document.activeElement.closest('[id]') || {}).id"))
    assert {"theme", "attacks", "figure-ladder", "choice"} <= reached


def test_keys_sort_open_and_choose(visit):
    page = visit()
    page.locator("#attacks th button").nth(2).focus()
    page.keyboard.press("Enter")
    assert page.get_attribute("#attacks th:nth-child(3)", "aria-sort") == "ascending"
    page.focus("#figure-ladder summary")
    page.keyboard.press("Enter")
    assert page.is_visible("#data-ladder")
    page.focus("#choice input:checked")
    before = page.eval_on_selector_all(".panel", "all => all.map(one => one.hidden)")
    page.keyboard.press("ArrowRight")
    after = page.eval_on_selector_all(".panel", "all => all.map(one => one.hidden)")
    assert before != after
    assert after.count(False) == before.count(False) == 1


def test_without_script_everything_is_there(browser, path, summary):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert all(page.is_visible(f"#figure-map-{index}") for index in range(len(summary["attacks"])))
    assert not page.is_visible("#choice")
    context.close()


def test_print_is_light_and_holds_every_attack(visit, summary):
    page = visit(color_scheme="dark")
    page.set_viewport_size({"width": 720, "height": 1000})  # a sheet of A4 within its margins
    page.emulate_media(media="print")
    wide = (
        "all => all.filter(one => one.checkVisibility() && one.scrollWidth > one.parentElement.clientWidth + 1).length"
    )
    assert page.eval_on_selector_all("table", wide) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert paper(page) == "rgb(255, 255, 255)"
    assert all(page.is_visible(f"#figure-roc-{index}") for index in range(len(summary["attacks"])))
    assert not page.is_visible("#theme")
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_no_width_makes_the_page_scroll_sideways(visit, width):
    page = visit(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_drawn_text_can_be_read_on_a_telephone(visit):
    """A narrow screen has drawings of its own: none scrolls in its frame, and no text shrinks below 7 pixels."""
    page = visit(viewport={"width": 360, "height": 800})
    wide = "all => all.filter(one => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1).map(one => one.id)"
    assert page.eval_on_selector_all(".plot", wide) == []
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll('svg text')].filter(text => text.checkVisibility())
             .map(text => parseFloat(getComputedStyle(text).fontSize) *
                Math.hypot(text.getScreenCTM().c, text.getScreenCTM().d)))"""
    )
    assert smallest >= 7


@pytest.mark.parametrize("font", ["Widest", "sans-serif", "serif"])
def test_drawn_text_does_not_run_out_of_its_drawing(misplaced, visit, opened, evolved, tmp_path, font):
    assert misplaced(visit(bypass_csp=True), font) == []
    assert misplaced(opened(write_report(evolved, tmp_path)[0], bypass_csp=True), font) == []


def test_a_policy_stops_script_that_is_not_ours(browser, path, tmp_path):
    altered = tmp_path / "altered.html"
    shutil.copy(path, altered)
    altered.write_text(path.read_text().replace("</main>", "<script>window.hacked=1</script></main>"))
    context = browser.new_context()
    page = context.new_page()
    page.goto(altered.as_uri())
    assert page.evaluate("window.hacked") is None
    context.close()


OUT_OF_FRAME = """() => [...document.querySelectorAll('body *')].filter(one => {
  const scrolls = one.closest('.scroll, .plot, pre');
  return one.checkVisibility() && (!scrolls || scrolls === one) && one.getBoundingClientRect().right > innerWidth + 1;
}).map(one => one.outerHTML.slice(0, 80))"""


def shows_on_a_telephone(page, *headings):
    """Hold a page to its headings, to its own script, and to a width of 400 pixels."""
    assert page.locator("h1").count() == 1
    assert page.locator("h2").all_inner_texts() == [*headings, "Glossary"]
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(OUT_OF_FRAME) == []


NEXT = "What to do next"
TEXT = (
    "What the text is worth",
    "A map of the populations",
    "The text, round by round",
    "Where candidates come from",
)


def test_the_page_of_an_evolution_opens_in_silence_on_a_telephone(opened, evolved, tmp_path):
    page = opened(write_report(evolved, tmp_path)[0], viewport={"width": 400, "height": 800})
    audit = ("Epsilon, round by round", "The gap ladder", "Epsilon by attack and canary")
    shows_on_a_telephone(page, NEXT, "What was done", *audit, *TEXT, "What it stands on", "Provenance")
    # Every map is in sight, two in a row; nothing of them needs scrolling.
    assert page.eval_on_selector("#figure-clouds .plot", "one => one.scrollWidth <= one.clientWidth")
    tops = page.eval_on_selector_all("#figure-clouds svg", "all => all.map(one => one.getBoundingClientRect().top)")
    assert tops[0] < tops[1] == tops[2] < tops[3]


def test_rounds_and_lineage_open_by_keyboard_and_without_script(browser, evolved, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(write_report(evolved, tmp_path)[0].as_uri())
    for css in (".round", ".tree .node"):
        closed = page.locator(f"#text {css}, #lineage {css}").filter(has=page.locator("summary")).first
        summary = closed.locator("summary").first
        is_open = closed.get_attribute("open") is not None
        summary.focus()
        page.keyboard.press("Enter")
        assert (closed.get_attribute("open") is not None) is not is_open
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_dots_of_the_map_have_the_colours_of_the_theme(opened, evolved, tmp_path, scheme):
    page = opened(write_report(evolved, tmp_path)[0], color_scheme=scheme)
    stroke = "all => [...new Set(all.map(one => getComputedStyle(one).stroke))]"
    colours = [page.eval_on_selector_all(f"#figure-clouds .dot-{kind}", stroke) for kind in ("real", "older", "new")]
    assert len({colour for found in colours for colour in found}) == 3
    assert all(len(found) == 1 and found != ["none"] for found in colours)


def test_the_page_of_the_paper_opens_in_silence_on_a_telephone(opened, table, rounds, tmp_path):
    page = opened(write_pieces((table, rounds), tmp_path), viewport={"width": 400, "height": 800})
    shows_on_a_telephone(page, table.title, rounds.title)
    assert page.locator("#figure-main svg path").count() > 20


def test_the_figures_of_the_paper_have_the_colours_of_the_theme(opened, table, tmp_path):
    fills = []
    for scheme in ("light", "dark"):
        page = opened(write_pieces((table,), tmp_path), color_scheme=scheme)
        used = "all => [...new Set(all.flatMap(one => ['fill', 'stroke'].map(name => getComputedStyle(one)[name])))]"
        fills.append(set(page.eval_on_selector_all("#figure-main svg path, #figure-main svg use", used)) - {"none"})
        assert paper(page) in fills[-1]
    assert not fills[0] & fills[1]


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_every_figure_can_be_saved_with_the_colours_that_it_has(visit, opened, table, tmp_path, kind):
    pages = {"#figure-ladder": visit(color_scheme="dark"), "#figure-main": opened(write_pieces((table,), tmp_path))}
    for figure, page in pages.items():
        with page.expect_download() as download:
            page.click(f"{figure} .save [data-kind={kind}]")
        assert download.value.suggested_filename == f"{figure[1:]}.{kind}"
        data = Path(download.value.path()).read_bytes()
        if kind == "png":
            assert data.startswith(b"\x89PNG")
            continue
        root = ET.fromstring(data)  # noqa: S314, our own markup
        sheet = root.find("{http://www.w3.org/2000/svg}rect")
        assert sheet.get("fill") == paper(page)
        assert b"var(" not in data


SYSTEM = ["What was audited", "Independence", "What it stands on", "Provenance"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["violated", "stands", "dependent", "several", "rounds"])
def test_the_page_of_a_system_opens_in_silence_on_a_telephone(opened, systems, tmp_path, name, scheme):
    page = opened(write_report(systems[name], tmp_path)[0], viewport={"width": 400, "height": 800}, color_scheme=scheme)
    between = [] if name == "dependent" else ["Evidence", "The gap ladder"]
    shows_on_a_telephone(page, NEXT, SYSTEM[0], *between, *SYSTEM[1:])
    assert paper(page) == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]


@pytest.mark.parametrize("font", ["Widest", "serif"])
@pytest.mark.parametrize("name", ["violated", "other", "several", "leak", "replace"])
def test_text_stays_in_the_figures_of_a_system(misplaced, opened, systems, tmp_path, name, font):
    assert misplaced(opened(write_report(systems[name], tmp_path)[0], bypass_csp=True), font) == []


def test_the_marks_of_a_system_take_the_colour_of_their_score(opened, systems, tmp_path):
    """A mark without a colour of its own would be black on the dark page."""
    for scheme in ("light", "dark"):
        page = opened(write_report(systems["other"], tmp_path)[0], color_scheme=scheme)
        fill = "all => [...new Set(all.map(one => getComputedStyle(one).fill))]"
        bound = page.eval_on_selector_all("#figure-rates .mark-bound.mark-fitted", fill)
        edge = page.eval_on_selector_all("#figure-rates .box-fitted", fill.replace(".fill", ".stroke"))
        assert bound == edge
        assert bound != ["rgb(0, 0, 0)"]


def test_without_script_the_page_of_a_system_holds_everything(browser, systems, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(write_report(systems["other"], tmp_path)[0].as_uri())
    assert all(page.is_visible(f"#{place}") for place in ("figure-rates", "figure-small", "figure-ladder", "shown"))
    context.close()


ONE_RUN = ["The canaries", "What one run shows", "The gap ladder"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["halved", "known", "fair"])
def test_the_page_of_one_run_opens_in_silence_on_a_telephone(opened, one_runs, tmp_path, name, scheme):
    page = opened(
        write_report(one_runs[name], tmp_path)[0], viewport={"width": 390, "height": 800}, color_scheme=scheme
    )
    shows_on_a_telephone(page, NEXT, "What was audited", *ONE_RUN, "What it stands on", "Provenance")
    assert paper(page) == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]


def test_the_page_of_an_evolution_with_its_certificate_opens_in_silence_on_a_telephone(opened, certified, tmp_path):
    page = opened(write_report(certified, tmp_path)[0], viewport={"width": 390, "height": 800})
    after = ("Epsilon, round by round", *TEXT, "What it stands on")
    shows_on_a_telephone(page, NEXT, "What was done", *ONE_RUN, *after, "Provenance")


@pytest.mark.parametrize("font", ["Widest", "serif"])
@pytest.mark.parametrize("name", ["halved", "known", "fair"])
def test_text_stays_in_the_figures_of_one_run(misplaced, opened, one_runs, tmp_path, name, font):
    assert misplaced(opened(write_report(one_runs[name], tmp_path)[0], bypass_csp=True), font) == []


def test_text_stays_in_the_figures_of_a_certified_evolution(misplaced, opened, certified, tmp_path):
    assert misplaced(opened(write_report(certified, tmp_path)[0], bypass_csp=True), "Widest") == []


def test_figures_in_pairs_fit_a_telephone(opened, one_runs, tmp_path):
    """They are read without scrolling sideways, and their text does not shrink below 7 pixels."""
    page = opened(write_report(one_runs["known"], tmp_path)[0], viewport={"width": 390, "height": 800})
    wide = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert page.eval_on_selector_all(".pair .plot", wide) == 0
    sizes = """all => Math.min(...all.map(text => parseFloat(getComputedStyle(text).fontSize) *
        Math.hypot(text.getScreenCTM().c, text.getScreenCTM().d)))"""
    assert page.eval_on_selector_all(".pair svg text", sizes) >= 7
