"""Write docs/reference.md from the code: commands, configuration, attacks, methods, exit codes, public names.

python docs/make.py           write the page
python docs/make.py --check   exit with 1 where the page is not what the code says
"""

import importlib
import inspect
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "reference.md"
ROOMS = (
    "store", "engine", "users", "encode", "generate", "mechanism", "score", "measure", "attack", "systems", "auditing",
    "evolution", "config", "run", "flow", "paper", "report", "testing",
)  # fmt: skip


def main() -> int:
    """Write or check the page."""
    text = page()
    if "--check" in sys.argv:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            print("docs/reference.md is not what the code says; run `make docs`.")
        return int(current != text)
    PAGE.write_text(text, encoding="utf-8")
    print(f"written: {PAGE.name}")
    return 0


def page() -> str:
    """Return the whole page."""
    parts = ["# Reference", "", "Written by `make docs` from the code; do not edit.", ""]
    for section in (commands, configuration, attacks, methods, exit_codes, names):
        parts += [*section(), ""]
    return "\n".join(parts)


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
        (1, "the gate, or the self-test, failed"),
        (2, "bad usage, input or configuration"),
        (3, "something is missing; the message has the install command"),
        (4, "an incomplete, locked or altered run"),
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
    own = inspect.isclass(value) or inspect.isfunction(value)
    return f": {_first(value)}" if own and _first(value) else ""


def _first(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
