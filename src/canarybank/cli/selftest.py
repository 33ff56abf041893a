"""Check the bounds on this machine, for the user's own settings."""

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, paragraph, table

__all__ = ["command"]

FAILED = 1


@configured(
    only=(
        "mechanism.sigma",
        "mechanism.q",
        "mechanism.delta",
        "audit.trials",
        "audit.alpha",
        "audit.method",
        "cohorts.canaries",
        "run.seed",
    )
)
def command(
    given: Given,
    *,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Check coverage and the perfect attack for your own q, sigma, trials and alpha; exit with 1 when a check fails."""
    from canarybank.flow import mechanism_of, selftest

    audit, config = given.config.audit, given.config
    found = selftest(
        mechanism_of(config),
        audit.trials,
        audit.alpha,
        method=audit.method,
        canaries=config.cohorts.canaries,
        seed=config.run.seed,
        progress=output.progress,
    )
    failed = sum(not check.ok for check in found.checks)
    said = f"All {len(found.checks)} checks hold." if found.ok else f"{failed} of {len(found.checks)} checks fail."
    rows = [["holds" if check.ok else "FAILS", check.name, check.detail] for check in found.checks]
    document = found.model_dump(mode="json")
    output.result("selftest", document, paragraph(said, "bold"), table(["", "check", "figures"], rows, text=3))
    return 0 if found.ok else FAILED
