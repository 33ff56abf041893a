"""Run Private Evolution, optionally audited round by round."""

from pathlib import Path
from typing import TYPE_CHECKING

from canarybank.cli.audit import Folder, Show, default_folder
from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output
from canarybank.cli.score import REFUTED
from canarybank.cli.typed import typed

if TYPE_CHECKING:
    from canarybank.evolution import ReleaserFactory

__all__ = ["command", "evolve_into"]

COMMON_KEYS = (
    "users.source",
    "bank.source",
    "encoder.name",
    "generator.kind",
    "mechanism.sigma",
    "mechanism.q",
    "evolve.rounds",
    "evolve.share",
    "evolve.epsilon",
    "evolve.budget",
    "evolve.account",
    "evolve.reference",
    "evolve.audit",
    "evolve.audit_one_run",
    "evolve.insecure_seed",
    "audit.trials",
)
SHORT = {
    "evolve.audit": "--audit",
    "evolve.audit_one_run": "--audit-one-run",
    "evolve.insecure_seed": "--insecure-seed",
}


@configured(shown=COMMON_KEYS, short=SHORT)
def command(
    given: Given,
    *,
    folder: Folder = None,
    show: Show = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Make synthetic text from users' noisy votes, round by round: release, keep, give feedback, generate.

    Every release is entered in the ledger before it is made, and the total epsilon is shown each round. A run that was
    interrupted goes on when the same command is given again, and releases nothing twice. With `--audit-one-run` a run,
    real or not, carries canaries of its own, and ends with a certificate of what its releases show of their claim; the
    exit code is 1 where it refutes the claim. Try it offline with `--preset embedded-evolution --insecure-seed 0`.
    """
    return evolve_into(given, folder or default_folder(given.file, "evolution"), output, show=show)


def evolve_into(
    given: Given, folder: Path, output: Output, *, show: bool = False, releaser: "ReleaserFactory | None" = None
) -> int:
    """Run an evolution or go on with it, write its page, print what it found, and return the exit code.

    Tests put their own releaser in.
    """
    from canarybank.cli.runner import open_page, print_run, published
    from canarybank.errors import BudgetError
    from canarybank.flow import run_evolution

    run = run_evolution(
        given.resolved, folder, progress=output.progress, command=typed(), told=output.note, releaser=releaser
    )
    page = published(run)
    print_run("evolve", run, page, output)
    if show:
        open_page(page)
    facts = run.results.evolution
    if facts is not None and facts.stopped is not None:
        raise BudgetError(facts.stopped)
    return REFUTED if facts is not None and facts.certificate is not None and facts.certificate.refuted else 0
