"""Show or open the budget account of a population."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from canarybank.cli.output import Output, facts, paragraph, table

if TYPE_CHECKING:
    from canarybank.mechanism import Account

__all__ = ["command"]

METHOD = "privacy loss distribution of all releases of all runs, at one q and sigma; add or remove one user"
LIMITS = "runs that do not name the account, and a file put back to an earlier state, cannot be detected"
TORN = (
    "the file's last line is incomplete: a process is writing it now, or was killed while it did, or the file was cut. "
    "Nothing is drawn before a line is whole, so it is not counted, and the next run sets it aside. If the file was "
    "cut or copied, restore it instead: the line may have been a debit"
)
DIGITS = 12

command = App(name="budget", help="Show or open the budget account of a population.")


@command.default
@command.command(name="show")
def show(
    file: Annotated[Path, Parameter(help="The account's file.")],
    /,
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Show a budget account: its population, what was committed, what each run took, what is spent and left."""
    from canarybank.mechanism import Account

    _show(Account(file), "budget show", output)


@command.command(name="open")
def open_account(
    file: Annotated[Path, Parameter(help="The file to make.")],
    /,
    *,
    population: Annotated[str, Parameter(help="The people whose budget it is, such as 'patients of 2026'.")],
    epsilon: Annotated[float, Parameter(help="The epsilon that all releases of all runs may spend.", metavar="X")],
    q: Annotated[float, Parameter(help="Each user's probability of taking part, in every run.", metavar="X")],
    sigma: Annotated[float, Parameter(help="The noise multiplier of every run.", metavar="X")],
    delta: Annotated[float, Parameter(help="The delta at which epsilon is composed.", metavar="X")] = 1e-5,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Open a budget account for a population; its epsilon, delta, q and sigma never change.

    Name the file as evolve.account in every run that touches these people.
    """
    from canarybank.mechanism import Account

    account = Account.open(file, population, budget=epsilon, q=q, sigma=sigma, delta=delta)
    _show(account, "budget open", output)


def _show(account: "Account", name: str, output: Output) -> None:
    from canarybank.mechanism import delta_text
    from canarybank.mechanism.account import left_text

    opening, left = account.opening, account.releases_left
    runs: dict[str, list[Any]] = {}
    for debit in account.debits:
        runs.setdefault(debit.run, []).append(debit)
    document = {
        "account": str(account.path),
        "opening": opening.hash,
        **{key: getattr(opening, key) for key in ("population", "q", "sigma", "epsilon", "delta", "neighbours")},
        "runs": [
            {"run": run, "debits": len(paid), "sealed": sum(debit.seal is not None for debit in paid)}
            for run, paid in runs.items()
        ],
        "releases": len(account.debits),
        "spent": account.spent,
        "slack": account.slack,
        "left": left,
        "torn": account.is_torn,
        "method": METHOD,
    }
    headline = (
        f"{opening.population}: epsilon {account.spent:.4f} of {opening.epsilon:g} spent at "
        f"{delta_text(opening.delta, account.slack)}; {left_text(left)} can be paid"
    )
    rows = [[each["run"][:DIGITS], each["debits"], each["sealed"]] for each in document["runs"]]
    parts = [paragraph(headline, "bold"), *([table(["run", "debits", "sealed"], rows)] if rows else [])]
    torn = {"note": TORN} if account.is_torn else {}
    lines = {"committed": f"q {opening.q:g}, sigma {opening.sigma:g}", "method": METHOD, "limits": LIMITS}
    output.result(name, document, *parts, facts(lines | torn | {"opening": opening.hash}))
