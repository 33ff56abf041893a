"""Show broken systems, and what it takes to catch each."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.whole_numbers import whole_number

if TYPE_CHECKING:
    from rich.console import RenderableType

    from canarybank.flow.zoo import FalseAlarms, ZooTable

__all__ = ["command"]


def command(
    names: Annotated[
        tuple[str, ...], Parameter(negative="", help="The systems to audit; left out, all are listed.")
    ] = (),
    /,
    *,
    everything: Annotated[
        bool, Parameter(name="--all", negative="", show_default=False, help="Audit all systems.")
    ] = False,
    runs: Annotated[
        str,
        Parameter(help="Numbers of judged runs of each hypothesis; half as many more are set apart.", metavar="A,B"),
    ] = "100,300,1000,3000",
    repeats: Annotated[
        int,
        Parameter(
            converter=whole_number,
            help="The audits of each system with each number of runs.",
            metavar="N",
            validator=validators.Number(gte=1),
        ),
    ] = 20,
    seed: Annotated[
        int,
        Parameter(
            converter=whole_number, help="The root seed of all audits.", metavar="N", validator=validators.Number(gte=0)
        ),
    ] = 0,
    record: Annotated[
        Path | None,
        Parameter(
            help="Write the measurement to this file as it grows; what the file holds is not measured again.",
            metavar="PATH",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            help="The processes to use; left out, one for each core.",
            metavar="N",
            show_default=False,
            validator=validators.Number(gte=1),
        ),
    ] = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """List the systems of the zoo, honest and broken: what each does and claims, what catches it, and what is blind.

    With names, or --all, audit these systems again and again, and count what catches them: bound, curve and betting on
    the designed and on the fitted score, and the check of independence. The figures of the listing were measured by
    this command and come with the package.
    """
    from canarybank.engine import Processes, Serial
    from canarybank.flow.zoo import measure_zoo, read_runs, recorded_zoo
    from canarybank.systems import ZOO

    if not names and not everything:
        _show("listing", recorded_zoo(), tuple(ZOO), output)
        return
    chosen = tuple(ZOO) if everything else names
    engine = Serial() if workers == 1 else Processes(workers)
    found = measure_zoo(
        chosen,
        read_runs(runs),
        repeats,
        seed=seed,
        record=record,
        engine=engine,
        progress=output.progress,
    )
    _show("measurement", found, tuple(dict.fromkeys(chosen)), output)


def _show(what: str, found: "ZooTable", names: tuple[str, ...], output: Output) -> None:
    from canarybank.flow.zoo import described

    document = {what: [described(found, name) for name in names], **found.model_dump(mode="json", exclude={"cells"})}
    parts = _listing(found, names) if what == "listing" else _measurement(found, names)
    output.result("zoo", document, *parts)


def _listing(found: "ZooTable", names: tuple[str, ...]) -> "list[RenderableType]":
    from canarybank.flow.zoo import INDEPENDENCE, KINDS, described
    from canarybank.systems import ZOO

    broken = [name for name in names if ZOO[name].breaks != "nothing"]
    kinds = (*KINDS, INDEPENDENCE)
    rows = [[name, *(_fewest(found, name, kind) for kind in kinds)] for name in broken]
    parts = [
        paragraph(f"The fewest runs of each hypothesis with which {_audits(found)} caught a broken system", "bold"),
        table(["system", *(kind.replace("/", "\n") for kind in kinds)], rows, whole=1),
        *_controls(found, [name for name in names if name not in broken]),
    ]
    for name in names:
        system = described(found, name)
        lines = {"does": system["description"], "claims": system["claim"]}
        if system["breaks"] != "nothing":
            repeats = system["repeats"]
            lines |= {
                "caught by": _grouped({kind: f"{n:,}" for kind, n in system["caught_by"].items()})
                or _nothing(system["missed_by"], found.most_runs(name)),
                "not caught by": _grouped(
                    {kind: f"{caught} of {repeats} at {n:,}" for kind, (n, caught) in system["missed_by"].items()}
                ),
            }
        parts += [
            paragraph(name, "bold"),
            facts({key: each for key, each in {**lines, "blind": system["blind"]}.items() if each}),
            paragraph(""),
        ]
    return parts


def _measurement(found: "ZooTable", names: tuple[str, ...]) -> "list[RenderableType]":
    from canarybank.flow.zoo import ANY, described
    from canarybank.systems import ZOO

    parts = []
    for name in names:
        cells = found.of(name)
        rows = [
            [_kind(kind), *(cell.caught.get(kind, 0) for cell in cells), _fewest(found, name, kind)]
            for kind in (*found.kinds(name), ANY)
        ]
        heading = f"{name}: how many of {cells[0].repeats} audits caught it, by judged runs of each hypothesis"
        parts += [
            paragraph(heading, "bold"),
            facts({"claims": described(found, name)["claim"]}),
            table(["evidence", *(f"{cell.runs:,}" for cell in cells), "90% from"], rows),
        ]
    return [*parts, *_controls(found, [name for name in names if ZOO[name].breaks == "nothing"])]


def _controls(found: "ZooTable", names: list[str]) -> "list[RenderableType]":
    from canarybank.flow.zoo import INDEPENDENCE

    if not names:
        return []
    rows = [
        [name, _alarms(found.false_alarms(name)), _alarms(found.false_alarms(name, INDEPENDENCE))] for name in names
    ]
    return [
        paragraph("False alarms on honest systems, over all numbers of runs", "bold"),
        table(["control", f"refuted, alpha {found.alpha:g}", "said to be dependent"], rows, whole=1),
    ]


def _alarms(alarms: "FalseAlarms") -> str:
    return f"{alarms.found} of {alarms.audits} (at most {alarms.allowed} allowed)"


def _nothing(missed: dict[str, tuple[int, int]], runs: int) -> str:
    seen = any(caught for _, caught in missed.values())
    return f"nothing {'often enough' if seen else '(invisible)'} with up to {runs:,} runs"


def _grouped(kinds: dict[str, str]) -> str:
    """Return kinds of evidence with what is said of them, those with the same together."""
    said = {what: [_kind(kind) for kind, each in kinds.items() if each == what] for what in kinds.values()}
    return "; ".join(f"{', '.join(group)} ({what})" for what, group in said.items())


def _fewest(found: "ZooTable", name: str, kind: str) -> str:
    from canarybank.flow.zoo import INDEPENDENCE

    needed = found.needed(name, kind)
    if needed is not None:
        return f"{needed:,}"
    # The check looks for one thing only; and where it finds that, nothing else is stated.
    silent = kind == INDEPENDENCE or found.needed(name, INDEPENDENCE) is not None
    return "–" if silent else f"> {found.most_runs(name):,}"


def _audits(found: "ZooTable") -> str:
    repeats = {cell.repeats for cell in found.cells}
    return f"at least 90% of {'/'.join(map(str, sorted(repeats)))} audits"


def _kind(kind: str) -> str:
    return kind.replace("/", " ")
