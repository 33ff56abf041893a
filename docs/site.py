"""Build the documentation site into site/: gather its pages, let zensical build them, and check every link.

python docs/site.py

Nothing is fetched. A page, an anchor or a picture that is missing fails the build; so does a page that would load
something from elsewhere. Links to other sites are listed in site/external-links.txt and not followed.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GATHERED = ROOT / "build" / "docs"
SITE = ROOT / "site"
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
API = ("canarybank", "mechanism", "score", "attack", "auditing", "systems", "evolution", "measure", "defend", "users",
       "encode", "generate", "config", "run", "flow", "report", "testing")  # fmt: skip
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


def main() -> int:
    """Build and check the site; return 1 with one line for each problem."""
    gather(ROOT, GATHERED)
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, our own site
    if built.returncode:
        print(re.sub(r"\x1b\[[\d;]*m", "", built.stdout + built.stderr))
        return 1
    problems, external = check_links(SITE)
    (SITE / "external-links.txt").write_text("".join(f"{link}\n" for link in external), encoding="utf-8")
    for problem in problems:
        print(problem)
    pages = len(list(SITE.rglob("*.html")))
    print(f"{pages} pages in site/, {len(problems)} broken links; {len(external)} links lead elsewhere, listed there.")
    return int(bool(problems))


def gather(root: Path, target: Path) -> None:
    """Copy the pages and pictures of docs/ and of the root into one folder, with a page for each room of the API."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / "docs", target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in OUTSIDE:
        text = (root / name).read_text(encoding="utf-8")
        (target / name).write_text(text.replace("](docs/", "]("), encoding="utf-8")
    for page in target.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"\]\(\.\./(?=[A-Z]+\.md)", "](", text), encoding="utf-8")
    (target / "api").mkdir(exist_ok=True)
    for room in API:
        (target / "api" / f"{room}.md").write_text(api_page(room), encoding="utf-8")


def api_page(room: str) -> str:
    """Return the page of a room: every public name, with its docstring and its examples."""
    place = room if room == "canarybank" else f"canarybank.{room}"
    return f"# {place}\n\n::: {place}\n"


class Links(HTMLParser):
    """The anchors of a page, the links that a reader may follow, and what a browser loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.followed: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the anchor and the links of one element."""
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.followed.append(found["href"])
        if LOADED.get(tag) in found and found.get("rel") not in {"prev", "next", "canonical"}:
            self.loaded.append(found[LOADED[tag]])


def check_links(site: Path) -> tuple[list[str], list[str]]:
    """Return what is broken in a built site, one sentence each, and the links that lead to other sites."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    problems, external = [], set()
    for path, page in pages.items():
        here = path.relative_to(site)
        for link in dict.fromkeys([*page.followed, *page.loaded]):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    problems.append(f"{here}: loads {link} from elsewhere; put it into the site.")
                elif parts.scheme in {"http", "https"}:
                    external.add(link)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if path.name == "404.html":  # its links start at the root of the server
                continue
            if not target.exists():
                problems.append(f"{here}: the link {link!r} leads nowhere.")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                problems.append(f"{here}: the link {link!r} leads to a page without that anchor.")
    return problems, sorted(external)


if __name__ == "__main__":
    sys.exit(main())
