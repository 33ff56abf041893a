"""Write the pages that the code already says: docs/reference.md, docs/glossary.md and docs/walkthrough.md.

The reference holds commands, configuration, attacks, methods, exit codes and public names; the glossary is
src/canarybank/report/glossary.toml; the walkthrough is a script that is run (docs/executed.py). `--check` leaves the
walkthrough to `python docs/executed.py --check`.

python docs/make.py           write the pages
python docs/make.py --check   exit with 1 where a page is not what the code says
"""

import importlib
import inspect
import sys
from pathlib import Path

import executed

DOCS = Path(__file__).parent
ROOMS = (
    "store", "engine", "users", "encode", "generate", "mechanism", "score", "measure", "attack", "defend", "systems",
    "auditing", "evolution", "config", "run", "flow", "paper", "report", "testing",
)  # fmt: skip


def main() -> int:
    """Write or check the pages."""
    pages = {"reference.md": reference(), "glossary.md": glossary()}
    if "--check" in sys.argv:
        stale = [name for name, text in pages.items() if not (DOCS / name).exists() or _read(name) != text]
        for name in stale:
            print(f"docs/{name} is not what the code says; run `make docs`.")
        return int(bool(stale))
    for name, text in pages.items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"written: {name}")
    return executed.main()


def _read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def reference() -> str:
    """Return the whole reference."""
    parts = ["# Reference", "", "Written by `make docs` from the code; do not edit.", ""]
    for section in (commands, configuration, attacks, methods, exit_codes, names):
        parts += [*section(), ""]
    return "\n".join(parts)


def glossary() -> str:
    """Return the glossary, each term under an anchor of its own."""
    from canarybank.report.glossary import glossary as read_glossary

    parts = [
        "# Glossary",
        "",
        "The words of the pages, the commands and the code, in the order in which they are needed.",
    ]
    parts += ["", "<!-- Written by `make docs` from src/canarybank/report/glossary.toml; do not edit. -->"]
    for word in read_glossary():
        parts += ["", f"## {word.term} {{ #{word.key} }}", "", word.meaning]
    return "\n".join([*parts, ""])


def commands() -> list[str]:
    """Return the commands with their one line each."""
    from canarybank.cli.commands import COMMANDS

    rows = [f"| `canarybank {name}` | {line} |" for group in COMMANDS.values() for name, line in group]
    return ["## Commands", "", "| command | what it does |", "|---|---|", *rows]


def configuration() -> list[str]:
    """Return every key of the configuration with its default and meaning."""
    from canarybank.config import fields

    rows = [f"| `{name}` | `{_default(field.default)}` | {field.description} |" for name, field in fields().items()]
    return ["## Configuration", "", "Each key is also a flag, as `--mechanism.sigma 2`.", "",
            "| key | default | meaning |", "|---|---|---|", *rows]  # fmt: skip


def _default(value: object) -> str:
    return "" if value is None else str(list(value) if isinstance(value, tuple) else value)


def attacks() -> list[str]:
    """Return the attacks as data."""
    from canarybank.attack import ATTACKS

    rows = [
        f"| `{a.name}` | {a.canary.value} | {a.pool.value} | {a.selection} | {a.description} |"
        for a in ATTACKS.values()
    ]
    return [
        "## Attacks",
        "",
        "| attack | canary | pool | selection | the server's move |",
        "|---|---|---|---|---|",
        *rows,
    ]


def methods() -> list[str]:
    """Return the bounds with what each stands on."""
    from canarybank.registry import METHODS

    return [
        "## Bounds",
        "",
        "| method | assumption |",
        "|---|---|",
        *(f"| `{m}` | {METHODS.built_in(m).assumption} |" for m in METHODS.places),
    ]


def exit_codes() -> list[str]:
    """Return the exit codes."""
    rows = [
        (0, "fine"),
        (1, "a check failed: a gate, a self-test, a claim, a bank or its proof"),
        (2, "bad usage, input or configuration"),
        (3, "something is missing; the message has the install command"),
        (4, "an incomplete, locked or altered run, or a generator that failed; what was done is kept"),
        (5, "evidence that is not independent, so that nothing is said from it"),
        (70, "a bug of canarybank: run again with --traceback and report what it prints"),
        (129, "the terminal was closed (SIGHUP); what was done is kept"),
        (130, "interrupted; the message has the command that resumes"),
        (143, "terminated (SIGTERM); likewise"),
    ]
    return ["## Exit codes", "", "| code | meaning |", "|---|---|", *(f"| {code} | {text} |" for code, text in rows)]


def names() -> list[str]:
    """Return the public names of every room, each with its first sentence."""
    lines = ["## Public names"]
    for place in ("canarybank", *(f"canarybank.{room}" for room in ROOMS)):
        module = importlib.import_module(place)
        lines += ["", f"### {place}", "", _first(module), ""]
        lines += [f"- `{name}`{_said(getattr(module, name))}" for name in module.__all__]
    return lines


def _said(value: object) -> str:
    own = inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))
    return f": {_first(value)}" if own and _first(value) else ""


def _first(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
