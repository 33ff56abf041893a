"""Say what a run would do, cost and could typically certify."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from canarybank.cli.audit import COMMON_KEYS, default_folder, note_assumed
from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.tune import (
    StandInsFlag,
    TokenRate,
    assumption_rows,
    cost_text,
    norms_text,
    rounds_text,
    survival_text,
)
from canarybank.cli.whole_numbers import whole_number
from canarybank.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from canarybank.config import Config
    from canarybank.flow import Outlook, Plan
    from canarybank.flow.one_run_plan import OneRunPlan
    from canarybank.flow.planning import GeneratorPlan
    from canarybank.flow.stand_ins import Option

__all__ = ["command"]

MINUTE = 60.0


@configured(shown=tuple(key for key in COMMON_KEYS if key not in {"audit.accounted", "run.seed"}), users=True)
def command(
    given: Given,
    *,
    folder: Annotated[
        Path | None, Parameter(help="The run's folder; left out, runs/ and the name of the file.", metavar="PATH")
    ] = None,
    evolve: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Plan the evolution instead, for evolve.population people, and do not open users.",
        ),
    ] = False,
    nodes: Annotated[
        int | None,
        Parameter(converter=whole_number, help="Plan a cluster of so many nodes like this machine, too.", metavar="N"),
    ] = None,
    price: Annotated[
        float | None, Parameter(help="What one node costs an hour, in your currency.", metavar="X")
    ] = None,
    stand_ins: StandInsFlag = "chitchat",
    tokens_per_second: TokenRate = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Say before anything runs what is cached and what is new, what it takes, and what it could typically certify.

    Users are read and admitted, and rates are measured on small pieces of the work; nothing is generated or evaluated.
    With `--evolve` users are not opened: what a round keeps is predicted from public people who stand in for them.
    `canarybank tune` recommends settings.
    """
    if evolve:
        from canarybank.flow import outlook

        if given.assumed:
            raise ConfigError(
                f"{str(given.file)!r} is a file of users, and --evolve does not open users; give a configuration, and "
                "say how many people vote by --evolve.population."
            )
        if nodes is not None or price is not None:
            raise ConfigError(
                "--nodes and --price plan an audit, and --evolve says what an evolution keeps and asks of its "
                "generator. Leave them out, or leave --evolve out."
            )

        expected = outlook(
            given.resolved, stand_ins=stand_ins, tokens_per_second=tokens_per_second, progress=output.progress
        )
        output.result(
            "plan",
            expected.model_dump(mode="json"),
            paragraph(_evolution_headline(expected), "bold"),
            facts(_evolution_facts(expected)),
            table(["assumption", "where it comes from"], assumption_rows(expected.assumptions), text=2),
        )
        return
    from canarybank.flow import plan

    note_assumed(given, output)
    place = folder or default_folder(given.file)
    made = plan(given.resolved, place, nodes=nodes, price=price, progress=output.progress)
    rows = [[stage.stage, "cached" if stage.cached else "new", stage.detail] for stage in made.stages]
    output.result(
        "plan",
        {"run": str(place), **made.model_dump(mode="json")},
        paragraph(_headline(made, place), "bold"),
        table(["stage", "", "what"], rows, text=3),
        *_machines(made),
        facts(_facts(made, given.config)),
    )


def _headline(made: "Plan", place: Path) -> str:
    what = {"new": "A new run", "resumes": "The run goes on", "finished": "The run is finished"}[made.state]
    return f"{what} in {place}: about {_duration(made.seconds)} and {made.memory_mib:,.0f} MiB"


def _machines(made: "Plan") -> list["RenderableType"]:
    """Return a table of what the run takes elsewhere, where that was asked for or a GPU would help."""
    if made.state == "finished" or (len(made.machines) == 1 and made.machines[0].cost is None):
        return []
    rows = [
        [
            each.machine,
            f"{each.workers:,}",
            _duration(each.seconds),
            f"{each.memory_mib:,.0f} MiB",
            "" if each.cost is None else f"{each.cost:,.2f}",
        ]
        for each in made.machines
    ]
    return [table(["where", "workers", "time", "memory a node", "cost"], rows, text=1)]


def _facts(made: "Plan", config: "Config") -> dict[str, str]:
    from canarybank.report.text import counted
    from canarybank.wording import shown_epsilon

    audit, canaries, asked = config.audit, config.cohorts.canaries, made.generator
    lines = {
        "users": f"{made.users:,} with {made.records:,} records; {made.eligible:,} eligible",
        "measured": "; ".join(made.measured),
        "assumed": "; ".join(made.assumed),
        "attacks": ", ".join(made.attacks),
        "encoder": f"{counted(made.texts_to_encode, 'text')} to encode",
        "generator": f"{asked.calls:,} calls, about {asked.tokens:,} tokens; {asked.cached:,} cached",
        "sent": _sent(asked),
        "trials": f"{made.trials:,} left, those that calibrate included, at {made.trials_per_second:,.0f} a second on "
        f"{counted(made.workers, 'worker')}",
        "exact epsilon": f"{shown_epsilon(made.epsilon, 4)} of one release at delta {config.mechanism.delta:g}, "
        "computed",
        "perfect attack": f"would show a median bound of {made.ceiling:.3f}, and {made.ceiling_range[0]:.3f} to "
        f"{made.ceiling_range[1]:.3f} in 90% of such runs, by the {audit.method} method, {100 * (1 - audit.alpha):g}% "
        f"confidence over {counted(len(made.attacks), 'attack')}, {audit.trials:,} trials of each hypothesis of each "
        f"of {canaries} canaries; half of them show more than the median",
    }
    if made.shards:
        lines["passes"] = f"{made.shards:,} shards of users are read, encoded and routed, memory holding one a worker"
    if made.trials_for_goal is not None:
        lines["for 90%"] = (
            f"{made.trials_for_goal:,} trials of each hypothesis of each canary would typically show "
            f"{shown_epsilon(0.9 * made.epsilon)}, over {counted(len(made.attacks), 'attack')}"
        )
    if made.one_run is not None:
        lines |= _one_run(made.one_run)
    return lines | ({"notes": " ".join(made.notes)} if made.notes else {})


def _evolution_headline(made: "Outlook") -> str:
    return (
        f"An evolution of {rounds_text(made.rounds)} spends epsilon {made.epsilon:.4f} at delta {made.delta:g}; about "
        f"{survival_text(made.option, made.tested_error)}"
    )


def _evolution_facts(made: "Outlook") -> dict[str, str]:
    option = made.option
    lines = {
        "people": f"{made.people:,} with {made.records:,} records each, {option.voters:,.0f} in a round on average",
        "bank": f"{option.bank:,} entries; {_staying(option)} after the first round",
        "release": f"k {option.k}, clip {option.clip:g}, q {option.q:g}, sigma {option.sigma:g}",
        "survival": f"{option.survival:.0%}: {made.tested}",
        "norms": norms_text(made.norms, option),
        "cost": cost_text(option),
    }
    if made.affordable is not None:
        lines["budget"] = f"evolve.budget pays for {made.affordable:,} of {rounds_text(made.rounds)}"
    return lines | ({"notes": " ".join(made.notes)} if made.notes else {})


def _staying(option: "Option") -> str:
    """Say how many entries stay: all that may, or fewer."""
    if option.kept == option.top:
        return f"{option.top:,} stay"
    return f"up to {option.top:,} may stay, and about {option.kept:,.0f} do"


def _one_run(made: "OneRunPlan") -> dict[str, str]:
    """Return a line for what the canaries of one run take, for each protocol, and for what it all comes to."""
    from canarybank.report.text import counted

    lines = {
        "one run": made.statement,
        "canaries": f"{made.canaries:,} with {counted(made.probes, 'probe')} each, {100 * made.share:.3g}% of the "
        "bank's "
        f"{made.bank:,} entries; designed shift {made.shift:.3g} noise deviations",
    }
    for coins in dict.fromkeys(each.coins for each in made.expected):
        group = [each for each in made.expected if each.coins is coins]
        bounds = [
            f"{each.evidence} median {each.median:.3f}, 5% to 95% {each.low:.3f} to {each.high:.3f}" for each in group
        ]
        lines[f"{coins} coins{', chosen' * group[0].is_chosen}"] = "would show: " + "; ".join(bounds)
    return lines | {"power": " ".join(made.power), "cost": made.cost}


def _sent(asked: "GeneratorPlan") -> str:
    """Say what the generator's server would be sent, and where that is."""
    if asked.server is None:
        return "nothing: no request leaves this machine"
    to = f"to {asked.server}{f' through the proxy {asked.proxy}' if asked.proxy else ''}: {asked.calls:,} requests"
    if not asked.calls_with_records:
        return f"{to}, none to paraphrase a user's record"
    return (
        f"{to}, {asked.calls_with_records:,} of them with a user's record: up to {asked.records:,} different records "
        f"of {asked.owners:,} users"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * MINUTE else f"{seconds / MINUTE:,.0f} min"
