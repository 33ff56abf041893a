"""Audit in a test: the pytest plug-in that gives the fixture ``canarybank``.

It comes with the package, so that a test only asks for it::

    def test_our_release_keeps_its_claim(canarybank):
        canarybank.audit("my-audit.toml", claimed=1.695)

For a system of your own, import the claim by name, for ``canarybank`` is the fixture in such a test::

    from canarybank import Mechanism

    def test_our_system_keeps_its_claim(canarybank):
        canarybank.audit_system(release, claim=Mechanism(sigma=1.0, q=0.1))

The test fails with the sentence of the gate, and the page is in the folder that the sentence names. Keep the folders of
all such tests by ``pytest --canarybank-runs PATH``, for a CI system to upload. Loading the plug-in loads no numpy.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from canarybank.auditing.system import SystemResult
    from canarybank.mechanism import Claim, Mechanism
    from canarybank.run import GateOutcome, Run

__all__ = ["Auditor", "canarybank", "pytest_addoption"]


@dataclass(frozen=True, slots=True)
class Auditor:
    """What the fixture ``canarybank`` gives a test: audits that fail it with a sentence where a claim does not stand.

    ``folder`` is where this test's runs go, each into a new folder of its own: an old run never answers for a new one.
    """

    folder: Path
    name: str = "run"

    def audit(
        self,
        config: Path | str | None = None,
        *,
        claimed: float,
        flags: Mapping[str, object] | None = None,
        preset: str | None = None,
    ) -> "GateOutcome":
        """Run an audit, write its page, and fail the test if the claimed epsilon does not stand.

        Args:
            config: A TOML file, or a file of users, as `canarybank audit` takes them; left out, the defaults.
            claimed: The epsilon that the operator claims for all releases of the run.
            flags: Values by dotted key, such as ``{"audit.trials": 20_000}``.
            preset: A preset's name, such as ``"embedded"``.

        Returns:
            What the gate found, where the claim stands.
        """
        from canarybank.config import is_users_file, resolve, resolve_users
        from canarybank.flow import run_audit
        from canarybank.run import gate

        if config is not None and is_users_file(config):
            resolved = resolve_users(config, flags, preset)
        else:
            resolved = resolve(config, flags, preset)
        run = run_audit(resolved, self._new_folder(), command="pytest")
        page = _write_page(run)
        outcome = gate(run, claimed)
        if not outcome.ok:
            pytest.fail(f"{outcome.statement} The page: {page}", pytrace=False)
        return outcome

    def audit_system(self, system: Any, *, claim: "Claim | Mechanism", **options: Any) -> "SystemResult":
        """Audit any system by its runs, write its page, and fail the test if the claim is refuted.

        Args:
            system: A function of (eligible, size, rng) that returns a release a row, or what else
                ``canarybank.audit_system`` takes.
            claim: What is tested: a claim, or a mechanism, which claims its exact epsilon.
            **options: Further arguments of ``canarybank.audit_system``, such as ``settings``.

        Returns:
            What the runs showed, where the claim is not refuted.
        """
        from canarybank.auditing.system import Verdict
        from canarybank.flow import audit_system
        from canarybank.run import open_run

        folder = self._new_folder()
        found = audit_system(system, claim=claim, folder=folder, **options)
        page = _write_page(open_run(folder))
        if found.verdict is not Verdict.STANDS:
            pytest.fail(f"{found.statement} The page: {page}", pytrace=False)
        return found

    def gate(self, run: "Run | Path | str", *, claimed: float, commitment: str | None = None) -> "GateOutcome":
        """Verify a finished run, and fail the test if the claimed epsilon does not stand.

        Args:
            run: A run, or its folder.
            claimed: The epsilon that the operator claims for all releases of the run.
            commitment: The hash that was published before the trials, where it was.

        Returns:
            What the gate found, where the claim stands.
        """
        from canarybank.run import gate

        outcome = gate(run, claimed, commitment)
        if not outcome.ok:
            pytest.fail(outcome.statement, pytrace=False)
        return outcome

    def _new_folder(self) -> Path:
        """Return a folder that is not there yet."""
        taken, number = self.folder / self.name, 1
        while taken.exists():
            number += 1
            taken = self.folder / f"{self.name}-{number}"
        return taken


def _write_page(run: "Run") -> Path:
    from canarybank.report import write_report

    page = write_report(run)[0]
    run.seal()
    return page


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says where runs are kept.

    Args:
        parser: The options of pytest.
    """
    group = parser.getgroup("canarybank", "audits by the fixture canarybank")
    group.addoption(
        "--canarybank-runs",
        metavar="PATH",
        help="Keep the runs of the fixture canarybank, with their pages, in this folder; left out, pytest's own.",
    )


@pytest.fixture
def canarybank(request: pytest.FixtureRequest, tmp_path: Path) -> Auditor:
    """Audit in a test, and fail it with a sentence where a claim does not stand."""
    kept = request.config.getoption("--canarybank-runs")
    name = re.sub(r"[^\w.]+", "-", request.node.name).strip("-")
    return Auditor(Path(kept) if kept else tmp_path, name)
