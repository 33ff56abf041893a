"""Write all forms of a run's report into its folder."""

from pathlib import Path

from canarybank.report.latex import latex_tables
from canarybank.report.markdown import summary_markdown
from canarybank.report.page import render_summary
from canarybank.report.rows import result_rows, write_csv, write_parquet
from canarybank.report.summary import round_rows, summarise_run
from canarybank.run.folder import Run
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
    summary, tables = summarise_run(run), {}
    texts = {PAGE: render_summary(summary)}
    if summary["verdict"]:
        texts |= {"summary.md": summary_markdown(summary), "results.tex": latex_tables(summary)}
        tables["results"] = result_rows(run.results)
    if summary["evolution"] and summary["evolution"]["rounds"]:
        tables["rounds"] = round_rows(run.results)
    for name, text in texts.items():
        write_atomic(target / name, text, mode=mode)
    for name, rows in tables.items():
        write_csv(rows, target / f"{name}.csv", mode=mode)
        write_parquet(rows, target / f"{name}.parquet", mode=mode)
    return tuple(
        target / name for name in (*texts, *(f"{name}.{kind}" for name in tables for kind in ("csv", "parquet")))
    )
