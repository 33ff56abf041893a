"""Write what a gate found into files for a CI system, which never keep the outcome of an earlier gate."""

from dataclasses import dataclass
from pathlib import Path

from canarybank.experiment.gating import GateOutcome
from canarybank.report.junit import junit, junit_error
from canarybank.report.markdown import gate_markdown, refused_markdown
from canarybank.store import write_atomic

__all__ = ["GateFiles"]


@dataclass(frozen=True, slots=True)
class GateFiles:
    """Where a gate's outcome goes as JUnit XML and as Markdown; None where it does not."""

    junit: Path | None = None
    markdown: Path | None = None

    def write(self, outcome: GateOutcome) -> None:
        """Write an outcome."""
        self._write(junit(outcome), gate_markdown(outcome))

    def refuse(self, reason: str) -> None:
        """Write that nothing was compared, and why: an error, and neither a failure nor a success."""
        self._write(junit_error(reason), refused_markdown(reason))

    def _write(self, xml: str, text: str) -> None:
        for path, content in ((self.junit, xml), (self.markdown, text)):
            if path is not None:
                write_atomic(path, content)
