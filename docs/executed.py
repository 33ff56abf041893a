"""Run docs/walkthrough.py cell by cell and write it as the page docs/walkthrough.md, with what each cell printed.

python docs/executed.py           run the script, write the page and its figure
python docs/executed.py --check   exit with 1 where the page is not what the script prints
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
SCRIPT = DOCS / "walkthrough.py"
PAGE = DOCS / "walkthrough.md"
FIGURE = "walkthrough.svg"


def main() -> int:
    """Run the script; write or check the page."""
    with tempfile.TemporaryDirectory() as folder:
        text = executed_page(SCRIPT.read_text(encoding="utf-8"), Path(folder))
        if "--check" in sys.argv:
            is_current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
            if not is_current:
                print("docs/walkthrough.md is not what docs/walkthrough.py prints; run `make docs`.")
            return int(not is_current)
        shutil.copyfile(Path(folder) / FIGURE, DOCS / "images" / FIGURE)
    PAGE.write_text(text, encoding="utf-8")
    print(f"written: {PAGE.name}")
    return 0


def cells(script: str) -> Iterator[tuple[str, str]]:
    """Return the cells of a percent-format script: ``markdown`` or ``code``, and the text without its comment signs."""
    for cell in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" in head:
            yield "markdown", re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)
        else:
            yield "code", body.strip()


def executed_page(script: str, folder: Path) -> str:
    """Run every code cell in order, in one namespace and in the folder, and return the page."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "canarybank"
    mpl.rcParams["svg.fonttype"] = "none"
    parts, names = (
        ["<!-- Written by `make docs` from docs/walkthrough.py; do not edit. -->"],
        {"__name__": "walkthrough"},
    )
    before = Path.cwd()
    os.chdir(folder)
    try:
        for kind, text in cells(script):
            if kind == "markdown":
                parts.append(text)
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, SCRIPT.name, "exec"), names)  # noqa: S102, our own script
            parts += [f"```python\n{text}\n```", f"```text\n{printed.getvalue().rstrip()}\n```"]
    finally:
        os.chdir(before)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
