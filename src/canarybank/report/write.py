"""Write all forms of a run's report into its folder."""

from pathlib import Path

from canarybank.experiment.folder import Run
from canarybank.report.latex import latex_tables
from canarybank.report.markdown import summary_markdown
from canarybank.report.page import render_summary
from canarybank.report.rows import result_rows, write_csv, write_parquet
from canarybank.report.summary import summarise_run
from canarybank.store import PRIVATE, SHAREABLE, write_atomic

__all__ = ["PAGE", "write_report"]

PAGE = "report.html"


def write_report(run: Run, folder: Path | str | None = None, *, shareable: bool = False) -> tuple[Path, ...]:
    """Write the page, the summary and the tables of a finished run; return their paths, the page first.

    They go into the run's own folder unless another is given. The same run gives the same bytes. Only their owner may
    read them, unless they are made shareable: they hold statistics of users without noise.
    """
    mode = SHAREABLE if shareable else PRIVATE
    target = run.folder if folder is None else Path(folder)
    summary, rows = summarise_run(run), result_rows(run.results)
    texts = {
        PAGE: render_summary(summary),
        "summary.md": summary_markdown(summary),
        "results.tex": latex_tables(summary),
    }
    for name, text in texts.items():
        write_atomic(target / name, text, mode=mode)
    write_csv(rows, target / "results.csv", mode=mode)
    write_parquet(rows, target / "results.parquet", mode=mode)
    return tuple(target / name for name in (*texts, "results.csv", "results.parquet"))
