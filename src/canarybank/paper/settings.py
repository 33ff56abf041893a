"""Turn an order into the paper's settings on your own users: what you do not set is as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from canarybank.attack import CanaryKind
from canarybank.config.loading import Resolved, filled, is_default, varied
from canarybank.config.model import Config
from canarybank.config.presets import PRESETS
from canarybank.errors import ConfigError
from canarybank.flow.bank import bank_labels, bank_prompt, gather_candidates, read_texts
from canarybank.flow.embedded import embedded_bank
from canarybank.flow.roles import chosen_attacks, cohort_sizes, draw_roles, outside_examples
from canarybank.flow.sending import may_send_records, refuse_sending
from canarybank.flow.users import admit_users, users_source
from canarybank.generate.bank import bank_plan
from canarybank.paper.published import DATASETS, THEORY
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, canonical_json, write_atomic

__all__ = ["BANK", "BUILT_IN", "PAPER", "Order", "arm_a", "arm_b", "dataset_of", "preset_values"]

BANK: Final = 8192
"""The entries of the paper's bank."""
BUILT_IN: Final = "chitchat"
_EXAMPLES: Final = 300
_SMALL_COHORTS: Final = {"auxiliary": 60, "calibration": 60, "evaluation": 120}
_ORIGIN: Final = "the paper"
# Labels of these are codes, which their own prompts put into words.
_PROMPTS_B: Final = {"yelp": "bank-yelp-examples", "sentiment140": "bank-sentiment140-examples"}


def preset_values(preset: str, *sections: str) -> dict[str, Any]:
    """Return what a preset sets in these sections, by dotted key; nothing where there is no such preset."""
    parts = PRESETS.get(preset, {})
    return {f"{section}.{key}": value for section in sections for key, value in parts.get(section, {}).items()}


_RELEASE: Final = preset_values("paper-yelp", "mechanism", "attack", "audit")
PAPER: Final[Mapping[str, Any]] = {
    **{key: value for key, value in _RELEASE.items() if key not in {"attack.names", "audit.accounted"}},
    "cohorts.canaries": PRESETS["paper-yelp"]["cohorts"]["canaries"],
}
"""The paper's parameters of one release; cohorts are 500, 500 and 1,000 where the users allow it."""


@dataclass(frozen=True)
class Order:
    """What a user asks for: the configuration so far, and the files and size that replace the paper's own."""

    resolved: Resolved
    folder: Path
    small: bool = False
    """Whether everything that costs time is small, to try the command."""
    data: str | None = None
    bank: str | None = None
    bank_b: str | None = None
    prompt_b: str | None = None
    encoders: tuple[str, ...] = ("minilm", "minilm-l12", "mpnet")
    rounds: int | None = None
    command: str = ""
    progress: Progress = SILENT
    cache: StageCache = field(default_factory=StageCache)

    @property
    def bank_size(self) -> int:
        """Return the most entries of a bank whose size nobody chose."""
        return 1024 if self.small else BANK


def dataset_of(config: Config) -> str | None:
    """Return which of the paper's datasets the users are, or None."""
    name = users_source(config.users).format.name
    return name if name in DATASETS else None


def arm_a(order: Order) -> Resolved:
    """Return the settings of arm A: the label-only bank, generated or from a file."""
    resolved = order.resolved
    if order.data is not None:
        resolved = varied(resolved, {"users.source": order.data}, "flag")
    config = resolved.config
    own = preset_values(f"paper-{users_source(config.users).format.name}", "users", "bank")
    own = {key: value for key, value in own.items() if key not in {"bank.source", "bank.size"}}
    own |= {"encoder.name": "minilm", "attack.names": ("available",)}
    if config.users.source == BUILT_IN:  # these have a light encoder, and bring paraphrases of their own
        own["encoder.name"] = "wordllama"
        if config.generator.kind == "none" or not may_send_records(config):
            own["cohorts.fixed"] = ("embedded",)
    resolved = filled(resolved, own, _ORIGIN)
    if order.small:
        cohorts = _small_cohorts(resolved.config, order)
        resolved = filled(resolved, {"audit.trials": 50_000, **cohorts}, "small scale")
    resolved = _with_bank(filled(resolved, PAPER, _ORIGIN), order.bank, order)
    mechanism = resolved.config.mechanism.model_dump()
    is_paper = all(PAPER[f"mechanism.{name}"] == value for name, value in mechanism.items())
    return filled(resolved, {"audit.accounted": THEORY} if is_paper else {}, _ORIGIN)


def arm_b(order: Order) -> Resolved:
    """Return the settings of arm B: a bank whose generator saw three public examples, or from a file of its own.

    A bank that cannot be read or generated is refused here, before anything runs.
    """
    given, resolved = order.bank_b, arm_a(order)
    resolved = _with_examples(resolved, order) if given is None else _with_bank(resolved, given, order)
    bank, users = resolved.config.bank, resolved.config.users
    if bank.source == "generate":
        prompt, examples = bank_prompt(bank)
        bank_plan(bank.size or BANK, bank_labels(bank, users), prompt=prompt, examples=examples)
    else:
        gather_candidates(bank, users, None, order.cache)
    return resolved


def _small_cohorts(config: Config, order: Order) -> dict[str, Any]:
    """Return the small cohorts where the users would fill larger ones; fewer users are shared out as ever."""
    people = admit_users(config.users, config.cohorts, order.cache, order.progress)
    real = sum(attack.canary is CanaryKind.REAL for attack in chosen_attacks(config)[0])
    sets = min(real, 1) if config.cohorts.shared or config.cohorts.fixed else real
    sizes = cohort_sizes(config.cohorts, len(people.users), sets)
    return {f"cohorts.{name}": most for name, most in _SMALL_COHORTS.items() if getattr(sizes, name) > most}


def _with_bank(resolved: Resolved, given: str | None, order: Order) -> Resolved:
    """Name the bank: a file, else one to generate where there is a generator, else the embedded one."""
    if given is not None:
        resolved = varied(resolved, {"bank.source": given}, "flag")
    elif is_default(resolved, "bank.source") and resolved.config.generator.kind != "none":
        resolved = varied(resolved, {"bank.source": "generate"}, _ORIGIN)
    if not is_default(order.resolved, "bank.size"):  # somebody chose the size, which then holds for both arms
        return resolved
    bank, size = resolved.config.bank, order.bank_size
    if bank.source != "generate":
        texts = embedded_bank().texts if bank.source == "embedded" else read_texts(Path(bank.source), bank.text)
        size = min(size, len(set(texts)))
    return varied(resolved, {"bank.size": size}, _ORIGIN)


def _with_examples(resolved: Resolved, order: Order) -> Resolved:
    """Let a generator write the bank from public examples: one text each of users who are in no cohort."""
    config = resolved.config
    if config.generator.kind == "none":
        raise ConfigError(
            "Arm B is a bank whose generator saw public examples, and no generator is named; set --generator.kind, or "
            "give the bank's file by --bank-b."
        )
    refuse_sending(
        config,
        "Arm B shows the generator records of users outside all cohorts as public examples. It",
        "give the bank's file by --bank-b",
    )
    users = admit_users(config.users, config.cohorts, order.cache, order.progress).users
    cohorts = draw_roles(config.cohorts, users, chosen_attacks(config)[0])
    left = len(users) - sum(len(each.users) for each in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation))
    left -= len({name for drawn in cohorts.canaries.values() for name in drawn.ids})
    texts = outside_examples(users, cohorts, count=max(1, min(_EXAMPLES, left)), seed=config.cohorts.seed)
    path = order.folder / "examples.jsonl"
    write_atomic(path, "".join(canonical_json({"text": text}) + "\n" for text in texts))
    bank = {
        "bank.source": "generate",
        "bank.size": order.bank_size if is_default(order.resolved, "bank.size") else config.bank.size,
        "bank.prompt": order.prompt_b or _PROMPTS_B.get(dataset_of(config) or ""),
        "bank.examples": str(path),
    }
    return varied(resolved, bank, "arm B")
