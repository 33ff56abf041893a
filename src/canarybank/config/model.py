"""Hold the one model that is the configuration: TOML file, flags, JSON schema, manifest and documentation come from it.

Nothing heavy is imported here, so that the command line can build its flags from the model at once. A field marked
``decides=False`` changes how a run is done but not what it finds: an existing run may be resumed with another value.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from canarybank.config.execution import RunConfig
from canarybank.config.kinds import (
    FREE,
    RECEIVED,
    Count,
    Heats,
    Names,
    Parts,
    Price,
    Registered,
    Section,
    Seed,
    Shares,
    joined,
    listed,
    shares_of,
)
from canarybank.variables import is_variable_name

__all__ = [
    "FORMER_DEFAULTS",
    "FREE",
    "NO_GENERATOR",
    "RECEIVED",
    "AttackConfig",
    "AuditConfig",
    "BankConfig",
    "CohortsConfig",
    "Config",
    "EncoderConfig",
    "EvolveConfig",
    "GeneratorConfig",
    "MechanismConfig",
    "OneRunConfig",
    "Registered",
    "RunConfig",
    "SystemConfig",
    "UsersConfig",
    "shares_of",
]

NO_GENERATOR: Final = "none"
_HIDDEN = "<hidden>"


FORMER_DEFAULTS: Mapping[str, Any] = MappingProxyType({"audit.engine": "projected"})
"""Defaults of earlier versions, by dotted key: a run that was begun with one goes on with it."""

AttackName = Annotated[str, Registered("attack")]
AttackChoice = Annotated[str, Registered("attack", ("available", "all", "paper"))]


class UsersConfig(Section):
    """Where the users come from, and who of them is admitted."""

    source: str = Field(
        default="chitchat", min_length=1, description="The built-in users (chitchat), or the path of a file."
    )
    format: Literal["csv", "tsv", "jsonl", "parquet", "yelp", "sentiment140", "chitchat"] | None = Field(
        default=None, description="The file's format; left out, its name tells."
    )
    user: str | None = Field(
        default=None, description="The column that holds the user's id; left out, the format's own."
    )
    text: str | None = Field(
        default=None, description="The column that holds the record's text; left out, the format's own."
    )
    label: str | None = Field(default=None, description="The column that holds the record's label, where there is one.")
    encoding: str | None = Field(default=None, description="The file's character encoding; left out, the format's own.")
    member: str | None = Field(default=None, description="The file to read inside an archive, as a pattern.")
    quote: str | None = Field(
        default=None,
        max_length=1,
        description="The character around fields that hold a delimiter, empty for none; left out, the format's own.",
    )
    strict: bool | None = Field(
        default=None,
        description="Whether a broken line is an error; if not, it is skipped and counted. Left out, it is an error, "
        "except in a real evolution, which skips it.",
    )
    minimum: Count | None = Field(default=None, description="The fewest usable records with which a user is admitted.")
    maximum: Count | None = Field(default=None, description="The most usable records with which a user is admitted.")
    cap: Count | None = Field(
        default=None,
        description="The records kept of each user; left out, 64, and in an audit fewer where too few users of a file "
        "have as many.",
    )
    minimum_words: Count | None = Field(default=None, description="The fewest words of a usable record.")
    labels: Names = Field(default=(), description="The labels of usable records; left out, all.")
    limit: Count | None = Field(
        default=None, description="The most users that are admitted, chosen by seed; a real evolution refuses it."
    )


class CohortsConfig(Section):
    """Which role each user plays."""

    auxiliary: Count | None = Field(
        default=None, description="Users who design; left out, as many as there are, 500 at most."
    )
    calibration: Count | None = Field(
        default=None, description="Users who calibrate; left out, as many as auxiliary ones."
    )
    evaluation: Count | None = Field(
        default=None, description="Eligible users; left out, as many as there are, 1,000 at most."
    )
    canaries: Count = Field(default=5, description="The canaries of each attack.")
    shared: bool = Field(
        default=False,
        description="Whether all attacks on real users have the same canaries, and all nonce attacks the same nonces; "
        "if not, each attack draws its own.",
    )
    fixed: Names = Field(
        default=(),
        description="The ids of the users who are the real canaries of all attacks, or the word embedded; left out, "
        "they are drawn by seed.",
    )
    seed: Seed = Field(
        default=0,
        description="The seed of all that is drawn before the trials: records under the cap, cohorts, canaries, "
        "reserved positions, nonces, pools and selections.",
    )


class EncoderConfig(Section):
    """What turns text into vectors."""

    name: Annotated[str, Registered("encoder")] = Field(
        default="wordllama",
        min_length=1,
        description="wordllama, minilm, hashing (for tests), a plug-in, the name or folder of a sentence-transformers "
        "model, or a file of vectors.",
    )
    device: str | None = Field(
        default=None,
        description="The torch device; left out, the best one here. On a GPU, records are routed there too.",
    )
    batch_size: Count | None = Field(
        default=None, description="Texts in one forward pass; left out, what suits the device."
    )
    precision: Literal["float32", "float16", "bfloat16"] = Field(
        default="float32", description="The number format that a model on torch computes in."
    )
    keep_vectors: bool | None = Field(
        default=None,
        description="Whether passes over users in shards keep vectors in the cache. Left out, they do, except where an "
        "audit on a GPU finds 16,384 or more texts of a cohort in a shard. Where no vector is kept, MiniLM on a GPU "
        "encodes in low precision first, and in float32 the texts whose routes that leaves open: the routes are "
        "float32's. On a CPU, a vector that was not kept may come back with another last bit. Vectors of hashing and "
        "wordllama are never kept. Real releases always encode in the configured precision.",
        json_schema_extra=FREE,
    )


class BankConfig(Section):
    """The candidate texts that users vote for."""

    source: str = Field(
        default="embedded",
        min_length=1,
        description="embedded, generate, or the path of a file (parquet, csv, jsonl or txt) with the texts.",
    )
    size: Count | None = Field(
        default=None,
        description="The number of entries; left out, all of the source, or 8,192 where they are generated.",
    )
    text: str = Field(default="text", description="The column of the file that holds the texts.")
    labels: Names = Field(
        default=(),
        description="The labels or topics to generate for; left out, users.labels. Or those to take of the embedded "
        "bank; left out, all.",
    )
    prompt: str | None = Field(default=None, description="The prompt to generate with, by name or path of a TOML file.")
    examples: str | None = Field(default=None, description="A file of public example texts to show to the generator.")
    shots: Count = Field(default=3, description="The examples shown in one request.")
    near: float = Field(default=0.7, gt=0, le=1, description="Candidates at least this similar are duplicates.")
    tries: float = Field(default=8.0, ge=1, le=1000, description="The most answers asked for a candidate, on average.")
    seed: Seed = Field(default=0, description="The seed of the requests.")
    vet: bool = Field(
        default=False, description="Whether entries that vetting names get no vote, in every round; see canarybank vet."
    )


class GeneratorConfig(Section):
    """What writes public text: banks and paraphrases."""

    kind: Annotated[str, Registered("generator", (NO_GENERATOR,))] = Field(
        default=NO_GENERATOR, description="The back end; none runs without one, on embedded texts."
    )
    model: str | None = Field(
        default=None, description="The model's name at the server or hub, or the path of its file."
    )
    revision: str = Field(default="", description="A mark for a model that changed under its name.")
    prefill: bool = Field(default=False, description="Whether the server continues an answer that the request begins.")
    base_url: str | None = Field(
        default=None,
        description="The URL of an OpenAI-compatible server; left out, OpenAI's own. Requests go nowhere else.",
        json_schema_extra=FREE,
    )
    api_key_env: str = Field(
        default="OPENAI_API_KEY",
        description="The environment variable that holds the API key; the key itself is never written anywhere.",
        json_schema_extra=FREE,
    )
    concurrency: Count = Field(default=8, description="The most requests in flight.", json_schema_extra=FREE)
    deadline: float = Field(
        default=120.0, gt=0, description="Seconds until an attempt is given up.", json_schema_extra=FREE
    )
    max_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="The most tokens that one command may spend.", json_schema_extra=FREE
    )
    max_cost: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="The most money that one command may spend.", json_schema_extra=FREE
    )
    prompt_price: Price = Field(
        default=0.0, description="The price of a million prompt tokens.", json_schema_extra=FREE
    )
    completion_price: Price = Field(
        default=0.0, description="The price of a million completion tokens.", json_schema_extra=FREE
    )
    device: str | None = Field(default=None, description="The torch device of transformers.", json_schema_extra=FREE)
    threads: Count | None = Field(
        default=None, description="The threads of a model in process.", json_schema_extra=FREE
    )

    @field_validator("base_url")
    @classmethod
    def _without_secret(cls, value: str | None) -> str | None:
        try:
            parts = urlsplit(value or "")
            _ = parts.port
        except ValueError:  # its own words would show what stands there, and that may be a password
            raise ValueError("it must be like http://host:port/v1, with a port of at most 65535") from None
        if parts.username or parts.password or parts.query:
            raise ValueError("it holds a user, a password or a query; a key belongs in an environment variable")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _named(cls, value: str) -> str:
        if value == _HIDDEN:
            raise ValueError(
                "it takes the name of an environment variable, such as OPENAI_API_KEY, and not the key itself"
            )
        return value

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _hidden(cls, value: Any) -> Any:
        # Last, and so the first to run: an error shows what it refuses, and what is no name may be the key itself.
        return value if isinstance(value, str) and is_variable_name(value) else _HIDDEN

    @model_validator(mode="after")
    def _with_model(self) -> "GeneratorConfig":
        if self.kind in {"openai", "llamacpp", "transformers"} and not self.model:
            raise ValueError(f"a generator of kind {self.kind} needs generator.model, its name or path")
        if self.kind == "smollm2" and self.model not in {None, "", "smollm2"}:
            raise ValueError(
                f"a generator of kind smollm2 has its own model, not {self.model!r}; leave generator.model out, or "
                "set generator.kind to llamacpp, transformers or openai"
            )
        return self


class MechanismConfig(Section):
    """The parameters of the release that decide its privacy."""

    k: Count = Field(default=5, description="The nearest bank entries that each record votes for.")
    clip: float = Field(default=0.1, gt=0, description="The L2 norm that a user's contribution is clipped to.")
    sigma: float = Field(
        default=1.0, gt=0, description="The noise multiplier: noise has standard deviation sigma times clip."
    )
    q: float = Field(default=0.1, gt=0, le=1, description="Each user's probability of taking part in a release.")
    delta: float = Field(
        default=1e-5, ge=0, lt=1, description="The delta at which epsilon is stated; at 0 no finite one exists."
    )
    share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="The share of the bank, secret and new at every release, that each user votes for; 1 is all of it.",
    )
    entry_cap: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="The most that one entry gets of a user's votes, which sum to 1; left out, no cap."
    )


class AttackConfig(Section):
    """What the auditor does to the bank."""

    names: Annotated[tuple[AttackChoice, ...], BeforeValidator(listed)] = Field(
        default=("available",),
        min_length=1,
        description="The attacks by name; all, or available: all that need no paraphrases, and the others where "
        "paraphrases may be made; or paper: of the available ones, the paper's eight.",
    )
    probes: Count = Field(default=64, description="The bank positions reserved for probes.")
    pool: Count = Field(default=512, description="The candidate probes that paraphrase and nonce attacks select from.")
    paraphrase_prompt: str = Field(default="paraphrase", description="The prompt of paraphrases, by name or path.")
    similarity: float = Field(
        default=0.3, ge=-1, le=1, description="The least cosine, by the run's encoder, of a paraphrase to its record."
    )
    tries: float = Field(default=8.0, ge=1, le=1000, description="The most answers asked for a paraphrase, on average.")
    send_records: bool = Field(
        default=False,
        description="Whether users' records may be sent to the generator's server, for paraphrases; a generator in "
        "this process needs no permission.",
    )

    @field_validator("names")
    @classmethod
    def _once(cls, value: tuple[AttackChoice, ...]) -> tuple[AttackChoice, ...]:
        if len(set(value)) != len(value):
            raise ValueError("an attack is named twice")
        if len(value) > 1 and {"all", "available", "paper"} & set(value):
            raise ValueError("the words all, available and paper stand alone")
        return value

    @model_validator(mode="after")
    def _enough(self) -> "AttackConfig":
        if self.pool < self.probes:
            raise ValueError(f"a pool of {self.pool} candidates cannot fill {self.probes} probe positions")
        return self


class AuditConfig(Section):
    """What is declared before anything is evaluated."""

    trials: Count = Field(default=1_000_000, description="The trials of each hypothesis of each canary.")
    alpha: float = Field(default=0.05, gt=0, lt=1, description="The level of each attack's headline claim.")
    method: Annotated[str, Registered("method")] = Field(
        default="paper", description="How counts become the headline bound."
    )
    threshold: Literal["calibrated", "analytic"] = Field(
        default="calibrated",
        description="How the threshold is frozen: by calibration trials, or by the calibration law.",
    )
    engine: Literal["tail", "projected", "literal", "literal-torch"] = Field(
        default="tail",
        description="How trials are played. tail draws only the trials above the threshold, projected draws all of "
        "them from projected users; literal (numpy) and literal-torch (the best torch device) simulate whole releases. "
        "The law is the same. With several rounds, tail draws what projected does.",
    )
    accounted: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="The epsilon that the operator's accountant claims; left out, the exact one."
    )
    system: Annotated[str, Registered("system")] = Field(
        default="mechanism", description="What releases: mechanism, which is our own, or a plug-in."
    )


class SystemConfig(Section):
    """Somebody else's system: what it claims, and the runs that test it."""

    name: str = Field(default="a system", min_length=1, description="What the system is called.")
    mechanism: bool = Field(
        default=True,
        description="Whether the section mechanism says what the system claims to run; its whole curve is tested then. "
        "If not, the claim is audit.accounted alone.",
    )
    neighbours: Literal["add-remove", "replace"] = Field(
        default="add-remove",
        description="What the claim is about: adding or removing one user, or replacing one by another.",
    )
    rounds: Count = Field(default=1, description="The releases of one run.")
    attack: AttackName = Field(default="nonce-mueff", description="The attack whose canaries and probes are planted.")
    eligible: Count | None = Field(
        default=None, description="The system's eligible users; left out, as many as the evaluation cohort."
    )
    by_label: bool = Field(
        default=False,
        description="Whether each label has a bank and a histogram of its own, in which its records vote.",
    )
    inspect: Literal["probes", "bank"] = Field(
        default="probes",
        description="The positions whose releases are recorded: those of the probes, or the whole bank, where a fitted "
        "score can also find what a canary does to the votes of others.",
    )
    one_run: bool = Field(
        default=False,
        description="Whether a single run is audited, which carries many canaries, as one_run says.",
    )
    canaries: Count = Field(default=1, description="The canaries that are tested; each has probes of its own.")
    runs: Annotated[int, Field(ge=8)] = Field(
        default=500, description="The judged runs of each hypothesis of each canary."
    )
    apart: Annotated[int, Field(ge=8)] | None = Field(
        default=None,
        description="The runs of each hypothesis of each canary that are set apart to fit on; left out, half as many "
        "as are judged.",
    )
    batch: Count | None = Field(
        default=None, description="The runs that a program is asked for at once; left out, about 1,000."
    )
    scores: Annotated[tuple[Literal["designed", "fitted", "length"], ...], BeforeValidator(listed)] = Field(
        default=("designed", "fitted"),
        min_length=1,
        description="What runs are scored by: designed for the claim, fitted to releases, or the length of a release.",
    )
    evidence: Annotated[tuple[Literal["bound", "curve", "betting"], ...], BeforeValidator(listed)] = Field(
        default=(),
        description="How counts become statements; left out, bound, and curve where the claim names a mechanism.",
    )


class OneRunConfig(Section):
    """The canaries of an audit of one run: many at once, each with probes of its own."""

    share: float = Field(
        default=0.05, gt=0, lt=1, description="The share of the bank's entries that probes may take the place of."
    )
    canaries: Annotated[int, Field(ge=8)] | None = Field(
        default=None,
        description="The canaries, each with mechanism.k probes; left out, as many as the share carries.",
    )
    style: Literal["nonce", "adaptive", "ordinary"] = Field(
        default="nonce",
        description="What canaries look like: random words, those of them that stand out most from public records, or "
        "ordinary-looking sentences, some of whose votes go elsewhere.",
    )
    coins: Literal["known", "fair"] = Field(
        default="known",
        description="Which coins are known of one run: the sampler's for all canaries and rounds, or the auditor's "
        "fair ones alone, by which canaries are in or out.",
    )
    evidence: Annotated[tuple[Literal["known-coins", "order-statistics", "guessing"], ...], BeforeValidator(listed)] = (
        Field(
            default=(),
            description="How scores become statements; left out, known-coins for known coins, order-statistics and "
            "guessing for fair ones.",
        )
    )


class EvolveConfig(Section):
    """Private Evolution itself: its rounds, what stays after each, and who is asked for more."""

    rounds: Count = Field(default=6, description="The releases, each with selection and feedback after it.")
    share: Shares = Field(
        default=0.05,
        description="The share of the bank's entries that stay after a round, rounded down; or one for each round.",
    )
    keep: Count | None = Field(default=None, description="The candidates that stay; left out, the share.")
    new: Count | None = Field(
        default=None,
        description="The candidates generated after a round in which as many stay as may; where fewer stay, more are "
        "generated. Left out, as many as keep the bank's size.",
    )
    keeper: Annotated[str, Registered("keeper")] = Field(
        default="top", description="The rule that decides which candidates stay."
    )
    threshold: Annotated[float, Field(ge=0)] = Field(
        default=2.0,
        description="The standard deviations of the noise that a vote must exceed, for the keepers threshold and "
        "clusters.",
    )
    carry: bool = Field(
        default=True,
        description="Whether the candidates that stay stand in the next bank; if not, they are parents only.",
    )
    feedback: Annotated[str, BeforeValidator(joined), Registered("feedback", shared=True)] = Field(
        default="in-context",
        min_length=1,
        description="How new candidates are asked for: one rule, or several with their shares, such as "
        "in-context:0.5,vary:0.5.",
    )
    parents: Annotated[str, Registered("parent rule")] = Field(
        default="even", description="The rule that draws examples and parents from the candidates that stay."
    )
    distance: Parts = Field(
        default=0.5,
        description="How far vary goes from its parent, from 0 to 1, and the share of words that blanks takes out; or "
        "one for each round.",
    )
    temperature: Heats | None = Field(
        default=None, description="The temperature of new candidates, or one a round; left out, the prompt's own."
    )
    prompt: str | None = Field(
        default=None,
        description="The prompt of in-context or paraphrase, by name or path; left out, continue or paraphrase.",
    )
    vary_prompt: str | None = Field(
        default=None, description="The prompt of vary, by name or path; left out, the one of that name."
    )
    blanks_prompt: str | None = Field(
        default=None, description="The prompt of blanks, by name or path; left out, the one of that name."
    )
    high: Count = Field(default=3, description="The highly voted examples in one request.")
    low: Annotated[int, Field(ge=0)] = Field(default=3, description="The lowly voted examples in one request.")
    kind: str = Field(
        default="a short message", min_length=1, description="What a text is called where candidates have no labels."
    )
    near: float = Field(default=0.7, gt=0, le=1, description="Candidates at least this similar are duplicates.")
    tries: Count = Field(
        default=12, description="The most answers asked for one new candidate.", json_schema_extra=FREE
    )
    epsilon: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="The epsilon that all rounds together may spend: sigma is computed from it, in place of "
        "mechanism.sigma.",
    )
    users: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="The users who take part in a round on average: q is computed from it, in place of mechanism.q. A "
        "real evolution needs evolve.population with it.",
    )
    population: Count | None = Field(
        default=None,
        description="How many users there are, declared public: q is evolve.users divided by it. Left out, a "
        "simulation counts the users.",
    )
    budget: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="The epsilon that no release may pass; the run stops before the one that would."
    )
    sample: Count | None = Field(
        default=None,
        description="The texts of a sample that is drawn by noisy votes and written beside the population; left out, "
        "no sample.",
    )
    reference: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="The users held out for figures of utility, which are not private; 0 makes no such figures, and a "
        "real evolution makes none.",
    )
    mauve: bool = Field(default=True, description="Whether the figures of utility include MAUVE.")
    buckets: Annotated[int, Field(ge=2)] | None = Field(
        default=None,
        description="The clusters that MAUVE compares texts by; left out, one for 20 texts of a population.",
    )
    audit: Annotated[tuple[AttackName, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="The attacks to audit every prefix of rounds with; they need evolve.insecure_seed.",
    )
    audit_one_run: bool = Field(
        default=False,
        description="Whether the run carries canaries of its own, as one_run says, and ends with their certificate.",
    )
    canaries: Count = Field(
        default=1, description="The canaries of each attack of evolve.audit; their probes stand in every bank."
    )
    compare: bool = Field(
        default=True, description="Whether an audited run is made without probes too, so that their cost is known."
    )
    responses: str | None = Field(
        default=None, description="A file of recorded answers to begin with, or the word embedded."
    )
    seed: Seed = Field(default=0, description="The seed of public choices: the reference, examples, prompts.")
    noise: Literal["discrete", "float"] = Field(
        default="discrete",
        description="How a real run draws its noise: exactly, by OpenDP, or in floating point, which adds more to "
        "delta. A simulation draws in floating point.",
    )
    account: str | None = Field(
        default=None,
        description="The file of the budget account that pays for the releases of a real run; left out, the run's "
        "epsilon covers that run alone.",
    )
    insecure_seed: Seed | None = Field(
        default=None,
        description="A seed of participation and noise, for tests and simulated audits: whoever has it can take the "
        "noise off. Left out, they come from the operating system.",
    )


class Config(Section):
    """Everything that an audit or an evolution is told."""

    users: UsersConfig = Field(default=UsersConfig(), description="Where the users come from.")
    cohorts: CohortsConfig = Field(default=CohortsConfig(), description="Which role each user plays.")
    encoder: EncoderConfig = Field(default=EncoderConfig(), description="What turns text into vectors.")
    bank: BankConfig = Field(default=BankConfig(), description="The candidate texts that users vote for.")
    generator: GeneratorConfig = Field(default=GeneratorConfig(), description="What writes public text.")
    mechanism: MechanismConfig = Field(default=MechanismConfig(), description="The parameters of the release.")
    attack: AttackConfig = Field(default=AttackConfig(), description="What the auditor does to the bank.")
    audit: AuditConfig = Field(default=AuditConfig(), description="What is declared before the evaluation.")
    evolve: EvolveConfig = Field(default=EvolveConfig(), description="Private Evolution itself, many rounds.")
    system: SystemConfig = Field(default=SystemConfig(), description="Somebody else's system.")
    one_run: OneRunConfig = Field(default=OneRunConfig(), description="The canaries of an audit of one run.")
    run: RunConfig = Field(default=RunConfig(), description="How the run is done.")
