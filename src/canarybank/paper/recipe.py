"""Turn an order into the paper's settings on the user's own data: what is not given is as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from canarybank.attack import CanaryKind
from canarybank.errors import ConfigError
from canarybank.experiment.admitted import admit_users, users_source
from canarybank.experiment.candidates import bank_labels, bank_prompt, gather_candidates, read_texts
from canarybank.experiment.config import Config
from canarybank.experiment.embedded import embedded_bank
from canarybank.experiment.origins import Resolved
from canarybank.experiment.outside import outside_examples
from canarybank.experiment.presets import PRESETS
from canarybank.experiment.results import SetupRecord
from canarybank.experiment.roles import chosen_attacks, cohort_sizes, draw_roles
from canarybank.experiment.sending import may_send_records, refuse_sending
from canarybank.experiment.stage_cache import StageCache
from canarybank.experiment.variants import filled, is_default, varied
from canarybank.generate.bank import bank_plan
from canarybank.paper.published import DATASETS, THEORY
from canarybank.progress import SILENT, Progress
from canarybank.store import canonical_json, write_atomic

__all__ = [
    "BUILT_IN",
    "PAPER",
    "SMALL",
    "Order",
    "Scale",
    "arm_a",
    "arm_b",
    "dataset_of",
    "encoder_notes",
    "setup_notes",
    "trial_notes",
]

BANK: Final = 8192
EXAMPLES: Final = 300
BUILT_IN: Final = "chitchat"
PAPER: Final[Mapping[str, Any]] = {
    "mechanism.k": 5,
    "mechanism.clip": 0.1,
    "mechanism.sigma": 1.0,
    "mechanism.q": 0.1,
    "mechanism.delta": 1e-5,
    "cohorts.canaries": 5,
    "attack.probes": 64,
    "attack.pool": 512,
    "audit.trials": 1_000_000,
    "audit.alpha": 0.05,
    "audit.method": "paper",
    "audit.threshold": "calibrated",
}
"""The paper's parameters of one release; cohorts are 500, 500 and 1,000 where the users allow it."""
SMALL: Final[Mapping[str, Any]] = {"audit.trials": 50_000}
_SMALL_COHORTS = {"auxiliary": 60, "calibration": 60, "evaluation": 120}
_SMALL_BANK = 1024
_ORIGIN = "the paper"
# Labels of these are codes, which their own prompts put into words.
_PROMPTS_B = {"yelp": "bank-yelp-examples", "sentiment140": "bank-sentiment140-examples"}


class Scale(StrEnum):
    """How large: as in the paper, or small enough to try the command."""

    PAPER = "paper"
    SMALL = "small"


@dataclass(frozen=True)
class Order:
    """What a user asks for: the configuration so far, and the files and scale that replace the paper's own."""

    resolved: Resolved
    folder: Path
    scale: Scale = Scale.PAPER
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
    def is_small(self) -> bool:
        """Say whether this is only a try."""
        return self.scale is Scale.SMALL


def arm_a(order: Order) -> Resolved:
    """Return the settings of arm A: the label-only bank, generated or from a file."""
    resolved = _with_data(order)
    resolved = filled(resolved, _own(resolved.config), _ORIGIN)
    if order.is_small:
        resolved = filled(resolved, {**SMALL, **_small_cohorts(resolved.config, order)}, "small scale")
    return filled(_with_bank(filled(resolved, PAPER, _ORIGIN), order.bank, order), _claimed(resolved.config), _ORIGIN)


def arm_b(order: Order) -> Resolved:
    """Return the settings of arm B: a bank whose generator saw three public examples, or from a file of its own."""
    resolved = arm_a(order)
    if order.bank_b is None:
        return _checked(_shown_examples(resolved, order), order)
    return _checked(_with_bank(resolved, order.bank_b, order), order)


def dataset_of(config: Config) -> str | None:
    """Return which of the paper's datasets the users are, or None."""
    name = users_source(config.users).format.name
    return name if name in DATASETS else None


def setup_notes(
    setup: SetupRecord, config: Config, *, trials: int = PAPER["audit.trials"], by_encoder: bool = False
) -> tuple[str, ...]:
    """Say where the users, the bank, the trials or the encoder are less or other than the paper's.

    ``trials`` are the paper's own for the piece; a piece that goes by encoder names them all itself.
    """
    notes = []
    dataset = dataset_of(config)
    if dataset is None:
        source = Path(config.users.source).name
        notes.append(f"The users are those of {source}, not the paper's; its numbers for both datasets stand beside.")
    cohorts = (setup.auxiliary, setup.calibration, setup.evaluation)
    if cohorts != (500, 500, 1000):
        here = f"{cohorts[0]:,} auxiliary, {cohorts[1]:,} calibration and {cohorts[2]:,} evaluation users"
        notes.append(f"Cohorts are scaled down: {here}; the paper has 500, 500 and 1,000.")
    if setup.records != 64:  # noqa: PLR2004, the paper's cap
        notes.append(f"Users have at most {setup.records} records, and canaries as many; the paper has 64.")
    if setup.bank != BANK:
        notes.append(f"The bank has {setup.bank:,} entries; the paper's has {BANK:,}.")
    notes += trial_notes(config.audit.trials, trials)
    if not by_encoder:
        notes += encoder_notes(setup.encoder)
    if config.cohorts.shared or config.cohorts.fixed:
        notes.append("All attacks on real users have the same canaries.")
    if sum(attack.canary is CanaryKind.NONCE for attack in chosen_attacks(config)[0]) > 1:
        notes.append("The nonce attacks have the same nonce canaries; the paper has others for each.")
    return tuple(notes)


def trial_notes(trials: int, paper: int) -> tuple[str, ...]:
    """Say how many trials there are, where they are not the paper's."""
    told = f"Trials are {trials:,} of each hypothesis of each canary; the paper has {paper:,}."
    return () if trials == paper else (told,)


def encoder_notes(encoder: str) -> tuple[str, ...]:
    """Say which encoder there is, by name or folder, where it is not the paper's."""
    name = Path(encoder).name
    same = name == "minilm" or "minilm-l6" in name.lower()
    return () if same else (f"The encoder is {name}; the paper's is MiniLM-L6.",)


def _with_data(order: Order) -> Resolved:
    resolved = order.resolved
    if order.data is not None:
        resolved = varied(resolved, {"users.source": order.data}, "flag")
    name = users_source(resolved.config.users).format.name
    preset = PRESETS.get(f"paper-{name}", {})
    given = {f"{part}.{key}": value for part in ("users", "bank") for key, value in preset.get(part, {}).items()}
    given = {key: value for key, value in given.items() if key not in {"bank.source", "bank.size"}}
    return filled(resolved, given, _ORIGIN)


def _own(config: Config) -> dict[str, Any]:
    """Return what depends on whether the users are the built-in ones: they have a light encoder and paraphrases."""
    if config.users.source != BUILT_IN:
        return {"encoder.name": "minilm", "attack.names": ("available",)}
    shipped = config.generator.kind == "none" or not may_send_records(config)
    fixed = {"cohorts.fixed": ("embedded",)} if shipped else {}
    return {"encoder.name": "wordllama", "attack.names": ("available",), **fixed}


def _small_cohorts(config: Config, order: Order) -> dict[str, Any]:
    """Return the small cohorts where the users would fill larger ones; fewer users are shared out as ever."""
    people = admit_users(config.users, config.cohorts, order.cache, order.progress)
    attacks, _ = chosen_attacks(config)
    real = sum(attack.canary is CanaryKind.REAL for attack in attacks)
    sets = min(real, 1) if config.cohorts.shared or config.cohorts.fixed else real
    sizes = cohort_sizes(config.cohorts, len(people.users), sets)
    return {f"cohorts.{name}": most for name, most in _SMALL_COHORTS.items() if getattr(sizes, name) > most}


def _claimed(config: Config) -> dict[str, Any]:
    mechanism = config.mechanism.model_dump()
    is_paper = all(PAPER[f"mechanism.{name}"] == value for name, value in mechanism.items())
    return {"audit.accounted": THEORY} if is_paper else {}


def _bank_size(order: Order) -> int:
    return _SMALL_BANK if order.is_small else BANK


def _sized(order: Order) -> bool:
    """Say whether somebody chose the size of the bank, which then holds for both arms."""
    return not is_default(order.resolved, "bank.size")


def _with_bank(resolved: Resolved, given: str | None, order: Order) -> Resolved:
    """Name the bank: a file, else one to generate where there is a generator, else the embedded one."""
    config = resolved.config.bank
    if given is not None:
        resolved = varied(resolved, {"bank.source": given}, "flag")
    elif is_default(resolved, "bank.source") and resolved.config.generator.kind != "none":
        resolved = varied(resolved, {"bank.source": "generate"}, _ORIGIN)
    if _sized(order):
        return resolved
    source, most = resolved.config.bank.source, _bank_size(order)
    if source == "generate":
        return varied(resolved, {"bank.size": most}, _ORIGIN)
    texts = embedded_bank().texts if source == "embedded" else read_texts(Path(source), config.text)
    return varied(resolved, {"bank.size": min(most, len(set(texts)))}, _ORIGIN)


def _shown_examples(resolved: Resolved, order: Order) -> Resolved:
    if resolved.config.generator.kind == "none":
        raise ConfigError(
            "Arm B is a bank whose generator saw public examples, and no generator is named; set --generator.kind, or "
            "give the bank's file by --bank-b."
        )
    refuse_sending(
        resolved.config,
        "Arm B shows the generator records of users outside all cohorts as public examples. It",
        "give the bank's file by --bank-b",
    )
    size = resolved.config.bank.size if _sized(order) else _bank_size(order)
    prompt = order.prompt_b or _PROMPTS_B.get(dataset_of(resolved.config) or "")
    made = {"bank.source": "generate", "bank.size": size, "bank.prompt": prompt}
    return varied(resolved, made | {"bank.examples": str(_examples(resolved.config, order))}, "arm B")


def _checked(resolved: Resolved, order: Order) -> Resolved:
    """Refuse a bank that cannot be read or asked for, so that nothing is played in vain."""
    config = resolved.config
    if config.bank.source != "generate":
        gather_candidates(config.bank, config.users, None, order.cache)
        return resolved
    prompt, examples = bank_prompt(config.bank)
    bank_plan(config.bank.size or BANK, bank_labels(config.bank, config.users), prompt=prompt, examples=examples)
    return resolved


def _examples(config: Config, order: Order) -> Path:
    """Write public examples, one each of users who play no role in any cohort, and return the file."""
    users = admit_users(config.users, config.cohorts, order.cache, order.progress).users
    attacks, _ = chosen_attacks(config)
    cohorts = draw_roles(config.cohorts, users, attacks)
    left = len(users) - sum(len(each.users) for each in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation))
    left -= len({name for drawn in cohorts.canaries.values() for name in drawn.ids})
    texts = outside_examples(users, cohorts, count=max(1, min(EXAMPLES, left)), seed=config.cohorts.seed)
    path = order.folder / "examples.jsonl"
    lines = [canonical_json({"text": text}) for text in texts]
    write_atomic(path, "\n".join(lines) + "\n")
    return path
