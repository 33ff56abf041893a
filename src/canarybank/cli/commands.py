"""List the commands; each is imported when it is called."""

from cyclopts import App, Group

from canarybank import __version__

__all__ = ["COMMANDS", "GLOBAL_FLAGS", "RESUMABLE", "program"]

_ABOUT = """\
Run Private Evolution, and measure how much of its privacy an attacker can take.

Start with `canarybank demo`; for your own users, `canarybank config init` and `canarybank audit`.
"""

COMMANDS: dict[str, tuple[tuple[str, str], ...]] = {
    "Audit": (
        ("demo", "Run the embedded audit, offline, in about half a minute."),
        ("audit", "Run the whole audit that a configuration describes."),
        ("evolve", "Run Private Evolution itself, optionally audited round by round."),
        ("sweep", "Run an audit at every point of a grid over any keys."),
        ("reproduce", "Make a table or figure of the paper, beside its own numbers."),
        ("bank", "Make a bank with a generator, or look at one."),
        ("prove", "State a bank's root; prove or check one of its entries."),
        ("vet", "Look for planted entries in a bank before anybody votes."),
    ),
    "Audit somebody else's system": (
        ("design", "Write what to plant in a system, committed before it runs."),
        ("score", "Judge what its recorded releases show, against its claim."),
        ("zoo", "Show broken systems, and what it takes to catch each."),
    ),
    "Before a run": (
        ("config", "Show, start or describe a configuration."),
        ("plan", "Say what a run would do, cost and could typically certify."),
        ("tune", "Recommend clip, k, bank size, q and sigma for a budget."),
        ("epsilon", "State the exact epsilon of a mechanism."),
        ("budget", "Show or open the budget account of a population."),
        ("ceiling", "State what a perfect attack certifies with so many trials."),
        ("selftest", "Check the bounds on this machine, for your own settings."),
    ),
    "After a run": (
        ("report", "Write a run's page, summary and tables again."),
        ("sample", "Draw a sample of an evolution's texts by their noisy votes."),
        ("gate", "Fail when a claimed epsilon is below what is computed or measured."),
        ("verify", "Check that a run kept to its commitment and was not altered."),
        ("runs", "List the runs in a folder, or compare two."),
        ("measure", "Say what texts are worth against real text."),
    ),
    "Housekeeping": (
        ("cache", "Show or prune the caches."),
        ("completion", "Print or install completion for your shell."),
    ),
}
"""The commands by group, each with its one line of help; a command lives in the module of its name."""

GLOBAL_FLAGS = ("--json", "--quiet", "--traceback")
RESUMABLE = ("audit", "bank", "demo", "evolve", "reproduce", "score", "sweep")
"""The commands whose work is kept when they are interrupted."""


def program(chosen: str = "") -> App:
    """Return the whole command line; the chosen command shows its own help, which may be longer than a line."""
    app = App(
        name="canarybank",
        help=_ABOUT,
        version=__version__,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    for title, members in COMMANDS.items():
        group = Group.create_ordered(title)
        for place, (name, line) in enumerate(members):
            about = None if name == chosen else line
            app.command(f"canarybank.cli.{name}:command", name=name, help=about, group=group, sort_key=place)
    options = Group.create_ordered("Options")
    for flag in ("--help", "--version"):
        app[flag].group = options
    if any(name == chosen for members in COMMANDS.values() for name, _ in members):
        _unwrap(app[chosen])
    return app


def _unwrap(app: App) -> None:
    """Let the terminal break the lines of a help text, not the source that it stands in."""
    app.help = "\n\n".join(" ".join(part.split()) for part in (app.help or "").split("\n\n"))
    for name in app:
        if not name.startswith("-"):
            _unwrap(app[name])
