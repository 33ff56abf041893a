"""Advise on an evolution before it runs: clip, k, bank size, q and sigma for a budget, and what each choice costs.

Everything comes from what the configuration declares and from public people who stand in for the private ones. The
users that ``users.source`` names are never opened.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from canarybank.config import Config, Resolved
from canarybank.errors import ConfigError
from canarybank.evolution.advice import (
    Setting,
    choose_setting,
)
from canarybank.flow.stand_ins import BUILT_IN, Assumption, GeneratorSpeed, Norms, Option, PublicScene
from canarybank.mechanism import affordable_rounds, epsilon, sigma_for_epsilon
from canarybank.mechanism.budget import rounded_up
from canarybank.mechanism.mechanism import require_delta
from canarybank.progress import SILENT, Progress
from canarybank.run.commitment import Record

__all__ = ["Advice", "Outlook", "Tried", "outlook", "tune"]


@dataclass(frozen=True, slots=True)
class Tried:
    """The values that are tried, and what decides between them."""

    sizes: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192)
    """Bank sizes; those that the public bank can give are tried."""
    ks: tuple[int, ...] = (1, 2, 3, 5, 8)
    """How many entries each record votes for."""
    qs: tuple[float, ...] = (0.05, 0.1, 0.2, 0.5, 1.0)
    """The probability that a person takes part in a round."""
    goal: float = 0.7
    """The largest bank is recommended whose survival reaches this."""


class _Expected(Record):
    """What an outlook and an advice both state."""

    people: int
    """How many people there are, as declared."""
    records: int
    """The records of each."""
    stand_ins: str
    """The public people whose votes stand for theirs."""
    stand_in_people: int
    """How many of those there are."""
    rounds: int
    """The rounds."""
    delta: float
    """The delta of every epsilon here."""
    epsilon: float
    """The exact epsilon of all rounds: as configured in an outlook, as recommended in an advice."""
    tested_error: float | None
    """The largest error of a predicted survival in tests that cover so many people and stand-ins; null without one."""
    tested: str
    """What was tested of the prediction, in words."""
    norms: Norms
    """The norms of the stand-ins' votes, over the same bank at the same k."""
    assumptions: tuple[Assumption, ...]
    """What all this rests on."""
    notes: tuple[str, ...]
    """What a reader should know."""


class Outlook(_Expected):
    """What an evolution is expected to spend, keep and cost as it is configured."""

    affordable: int | None
    """The rounds that ``evolve.budget`` pays for, all of them at most; null without a budget."""
    option: Option
    """The bank and mechanism as configured."""


class Advice(_Expected):
    """What is recommended for a budget, beside the alternatives."""

    budget: float
    """The epsilon that all rounds may spend."""
    recommended: Option
    """The choice."""
    reached: bool
    """Whether its survival reaches the goal."""
    goal: float
    """The survival that was asked for."""
    by_bank: tuple[Option, ...]
    """The best choice for each bank size."""
    by_k: tuple[Option, ...]
    """For each k, with the recommended bank and q."""
    by_q: tuple[Option, ...]
    """For each q, with the recommended bank and k."""
    configured: Option
    """The bank and mechanism as configured."""
    toml: str
    """The recommended values as a part of a configuration file."""


def tune(
    resolved: Resolved,
    tried: Tried | None = None,
    *,
    stand_ins: str = BUILT_IN,
    tokens_per_second: float | None = None,
    measure: bool = False,
    progress: Progress = SILENT,
) -> Advice:
    r"""Recommend bank size, k, clip, q and sigma for the people and the budget that a configuration declares.

    Args:
        resolved: The configuration: evolve.population people with users.cap records each, and evolve.epsilon (or
            evolve.budget) at mechanism.delta over evolve.rounds.
        tried: The values that are tried, and the goal.
        stand_ins: The built-in users, or a file of public people, read as the section users says.
        tokens_per_second: The generator's speed, where you know it.
        measure: Whether to ask the generator for a few public texts, to measure its speed.
        progress: Where progress is shown.

    Example:
        >>> from pathlib import Path
        >>> from canarybank import resolve
        >>> rows = [f"p{person},word{person % 7} and word{record}" for person in range(60) for record in range(4)]
        >>> _ = Path("public.csv").write_text("\n".join(["user,text", *rows]))
        >>> told = {"users.cap": 4, "bank.source": "bank.txt", "encoder.name": "hashing", "evolve.population": 500}
        >>> resolved = resolve(flags=told | {"evolve.epsilon": 4.0, "evolve.rounds": 1})
        >>> advice = tune(resolved, Tried(sizes=(50,), ks=(2,), qs=(0.5,)), stand_ins="public.csv")
        >>> (advice.recommended.q, 3.9 < advice.epsilon <= 4.0)
        (0.5, True)
    """
    tried, config = tried or Tried(), resolved.config
    budget = config.evolve.epsilon if config.evolve.epsilon is not None else config.evolve.budget
    if budget is None:
        raise ConfigError("Say what may be spent: set evolve.epsilon (--epsilon) to the epsilon of all rounds.")
    require_delta(config.mechanism.delta, "Advice on an evolution")
    scene = PublicScene.of(config, stand_ins, progress)
    sizes = [size for size in sorted({*tried.sizes, len(scene.bank.texts)}) if size <= len(scene.bank.texts)]
    if (fixed := config.bank.size) is not None:
        sizes = [min(fixed, len(scene.bank.texts))]
    with progress.stage("calibrate sigma", len(tried.qs), "values of q") as stage:
        sigmas = {}
        for q in tried.qs:
            sigmas[q] = sigma_for_epsilon(budget, q=q, delta=config.mechanism.delta, rounds=config.evolve.rounds)
            stage.advance()
    settings: list[Setting] = []
    with progress.stage("predict", len(sizes) * len(tried.ks), "banks and k") as stage:
        for size in sizes:
            for k in tried.ks:
                if k <= size:
                    settings += scene.settings(size, k, sigmas)
                stage.advance()
    chosen = choose_setting(settings, goal=tried.goal)
    speed = scene.speed(tokens_per_second, measure=measure)
    option = lru_cache(None)(lambda setting: scene.option(setting, speed))
    same = [each for each in settings if each.bank == chosen.bank]
    best = [choose_setting([each for each in settings if each.bank == size], goal=tried.goal) for size in sizes]
    k, q = chosen.mechanism.k, chosen.mechanism.q
    return Advice(
        **scene.expected(chosen, speed),
        notes=(*scene.notes, *keeper_notes(settings), *_tuned_notes(chosen, tried.goal, scene)),
        budget=budget,
        recommended=option(chosen),
        reached=chosen.survival >= tried.goal,
        goal=tried.goal,
        by_bank=tuple(map(option, best)),
        by_k=tuple(option(each) for each in same if each.mechanism.q == q),
        by_q=tuple(option(each) for each in same if each.mechanism.k == k),
        configured=option(scene.configured),
        toml=_toml(chosen, config, budget),
    )


def outlook(
    resolved: Resolved,
    *,
    stand_ins: str = BUILT_IN,
    tokens_per_second: float | None = None,
    progress: Progress = SILENT,
) -> Outlook:
    r"""Say what an evolution would spend, keep and cost as it is configured, without opening its users.

    Args:
        resolved: The configuration, with ``evolve.population`` people of ``users.cap`` records each.
        stand_ins: The built-in users, or a file of public people, read as the section users says.
        tokens_per_second: The generator's speed, where you know it.
        progress: Where progress is shown.

    Example:
        >>> from pathlib import Path
        >>> from canarybank import resolve
        >>> rows = [f"p{person},word{person % 7} and word{record}" for person in range(60) for record in range(4)]
        >>> _ = Path("public.csv").write_text("\n".join(["user,text", *rows]))
        >>> told = {"users.cap": 4, "bank.source": "bank.txt", "encoder.name": "hashing", "evolve.population": 500}
        >>> found = outlook(resolve(flags=told | {"evolve.rounds": 1}), stand_ins="public.csv")
        >>> (found.people, round(found.epsilon, 3))
        (500, 1.685)
    """
    config = resolved.config
    scene = PublicScene.of(config, stand_ins, progress)
    setting = scene.configured
    budget, speed = config.evolve.budget, scene.speed(tokens_per_second)
    option, common = scene.option(setting, speed), scene.expected(setting, speed)
    return Outlook(
        **common,
        notes=(*scene.notes, *keeper_notes([setting]), *clip_notes(option, common["norms"])),
        affordable=None if budget is None else affordable_rounds(setting.mechanism, budget, config.evolve.rounds),
        option=option,
    )


def keeper_notes(settings: Sequence[Setting]) -> Iterator[str]:
    """Say where the configured keeper failed, so that the keeper ``top`` stands in for it."""
    failed = [each for each in settings if each.failure]
    if failed:
        some = "" if len(failed) == len(settings) else f" in {len(failed):,} of {len(settings):,} settings"
        yield (
            f"{failed[0].failure.rstrip('.')}. So the survival is predicted for the keeper top{some}. A run with this "
            "keeper may fail as well, after a release is spent: try it with canarybank.testing.check_keeper first."
        )


def clip_notes(option: Option, norms: Norms) -> Iterator[str]:
    """Say where a clip buys noise for nothing, or noise that few people's votes need."""
    if option.spare_noise > 1:
        yield (
            f"The clip of {option.clip:g} is above every norm, and the largest is {norms.largest:.3g}: the noise is "
            f"{option.spare_noise:.3g} times as large as it need be. Set mechanism.clip to "
            f"{rounded_up(norms.largest, 3):g}: the same votes, the same epsilon, less noise."
        )
    elif option.clip > norms.high:
        yield (
            f"The clip of {option.clip:g} is above the norm of 95% of people, {norms.high:.3g}. A clip at that norm "
            f"scales down the votes of the other 5%, and its noise is {option.clip / norms.high:.3g} times smaller. At "
            f"the median, {norms.median:.3g}, it would be {option.clip / norms.median:.3g} times smaller."
        )


def _tuned_notes(chosen: Setting, goal: float, scene: PublicScene) -> Iterator[str]:
    if chosen.survival < goal:
        yield (
            f"No setting that was tried reaches a survival of {goal:.0%}. More people, a larger epsilon, fewer rounds "
            "or a smaller bank would raise it."
        )
    for note in clip_notes(scene.option(scene.configured, GeneratorSpeed()), scene.norms(scene.configured)):
        yield f"As configured: {note}"


def _toml(chosen: Setting, config: Config, budget: float) -> str:
    """Return the recommended values as sections of a configuration file."""
    mechanism, rounds = chosen.mechanism, config.evolve.rounds
    spent = math.ceil(epsilon(mechanism, rounds) * 1e4) / 1e4
    return "\n".join(
        (
            f"# {rounds} rounds spend epsilon {spent:.4f} at delta {mechanism.delta:g}, exactly computed.",
            "[bank]",
            f"size = {chosen.bank}",
            "",
            "[mechanism]",
            f"k = {mechanism.k}",
            f"clip = {mechanism.clip!r}",
            f"q = {mechanism.q!r}",
            f"sigma = {mechanism.sigma!r}",
            f"delta = {mechanism.delta!r}",
            "",
            "[evolve]",
            f"rounds = {rounds}",
            f"budget = {budget!r}",
        )
    )
