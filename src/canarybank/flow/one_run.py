"""Audit somebody else's system by a single run: design its canaries, and judge what it released.

Many canaries are put into the one run that the system makes anyway, each with probes of its own. The folder goes to the
operator, in any language; what comes back is what each round released on the probes, and for known coins who took part.
"""

import csv
import io
import secrets
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from canarybank import seeds
from canarybank.attack import ManyCanaries, canary_scores, make_canaries, share_of_votes
from canarybank.auditing.one_run import Coins
from canarybank.config.loading import Resolved, decisive, flatten, is_default
from canarybank.config.model import Config
from canarybank.errors import BudgetError, IncompleteError, InputError, StoreError
from canarybank.flow.audit import hold_to
from canarybank.flow.canaries import count_canaries, declare_run, refuse_untestable
from canarybank.flow.design import claim_of, csv_text
from canarybank.flow.generators import build_generator, cached_generator
from canarybank.flow.inputs import Inputs, gather
from canarybank.mechanism import Claim, Mechanism, Routed
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import COMMITMENT, RESULTS, Run
from canarybank.run.one_run import ELIGIBLE, OneRunPlant, OneRunResults, recorded_hash, write_released
from canarybank.run.plant import CANARIES, PROBES, README, UNTIMED, npy_bytes
from canarybank.run.verification import refuse_unverified
from canarybank.store import StageCache, altered_files, canonical_json, file_errors, hash_file, hash_json, write_atomic
from canarybank.systems.recorded import RecordedSystem

__all__ = ["design_one_run", "draw_eligible", "score_one_run"]

SHOWN, WIDTH, SHORT = 5, 120, 18
NOBODY = 1e-6
"""Coins by which nobody took part are refused where chance gives such coins less often than this."""
TRUE, FALSE = {"1", "true", "yes"}, {"0", "false", "no"}


def design_one_run(
    resolved: Resolved,
    folder: Path | str,
    *,
    progress: Progress = SILENT,
    command: str = "",
    committed: Callable[[str], None] | None = None,
) -> Run:
    """Write canaries, probes, who is in, and the commitment to all of it into a folder, and return its run.

    The same call again leaves a plant as it is, its coins too; other settings in the same folder are refused.

    Args:
        resolved: The configuration with its origins; its section ``one_run`` says how many canaries of which style.
        folder: The folder to write; it goes to the operator.
        progress: Where progress is shown.
        command: The command to name in the manifest.
        committed: Called with the commitment's hash once the commitment is on disk.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "mechanism.q": 1, "run.seed": 4}
        >>> small = {"system.one_run": True, "mechanism.k": 3, "one_run.canaries": 12, "one_run.share": 0.6}
        >>> plant = design_one_run(resolve_users("my-users.csv", flags | small), "one-run-plant").one_run
        >>> len(plant.eligible), 0 < sum(plant.eligible) < 12
        (12, True)
    """
    config = resolved.config
    claim = claim_of(config)
    refuse_untestable(config, claim)
    with Run.held(resolved, Path(folder), command, "one-run") as run:
        if not run.is_finished:
            seed = None if is_default(resolved, "run.seed") else config.run.seed
            kept = run.one_run if (run.folder / COMMITMENT).exists() else None
            plant, files = _designed(config, claim, seed, kept, progress)
            for name, data in files.items():
                write_atomic(run.folder / name, data)
            hold_to(run, plant, committed)
    return run


def draw_eligible(coins: Coins, q: float, canaries: int, seed: int | None) -> NDArray[np.bool_]:
    """Return which canaries are in.

    With known coins of q < 1 all are. Otherwise each is in by a fair coin of the auditor's: from the operating system,
    or from a seed where there is one.
    """
    if coins is Coins.KNOWN and q < 1:
        return np.ones(canaries, dtype=np.bool_)
    if seed is None:
        return np.array([bool(secrets.randbits(1)) for _ in range(canaries)])
    return seeds.stream(seed, "one run", "eligible").integers(2, size=canaries).astype(np.bool_)


def _designed(
    config: Config, claim: Claim, seed: int | None, kept: OneRunPlant | None, progress: Progress
) -> tuple[OneRunPlant, dict[str, bytes]]:
    """Return the commitment and the files that it commits to; coins that were committed to are not drawn again."""
    inputs, mechanism = _gathered(config, progress), Mechanism(**config.mechanism.model_dump())
    count = count_canaries(config, inputs.bank.size)
    bank = inputs.bank.reserve(count * mechanism.k, config.cohorts.seed)
    auxiliary = inputs.auxiliary
    with progress.stage("designing", total=count, unit="canaries") as stage:
        many = make_canaries(
            config.one_run.style,
            count,
            inputs.encoder.encode,
            bank,
            mechanism,
            config.cohorts.seed,
            public=auxiliary.users.require_vectors(),
        )
        planted = many.planted(bank)
        votes = Routed.build(auxiliary, bank, mechanism.k).contributions(planted, mechanism)
        others = config.system.eligible or len(inputs.roles.evaluation)
        reading = canary_scores(many, planted, mechanism, background=votes, eligible=others)
        stage.advance(count)
    declared = declare_run(config, claim, count, float(reading.shifts.mean()))
    eligible = draw_eligible(declared.coins, claim.q, count, seed) if kept is None else np.array(kept.eligible)
    files = _files(many, reading.positions, eligible)
    plant = OneRunPlant.of(
        declared,
        reading,
        eligible,
        files,
        system=config.system.name,
        settings_hash=hash_json(decisive(flatten(config), "one-run")),
        seed=seed,
        style=config.one_run.style,
        bank_size=bank.size,
        bank_hash=planted.hash,
        votes_taken=share_of_votes(votes, reading.positions),
    )
    return plant, files | {README: _readme(plant).encode()}


def _gathered(config: Config, progress: Progress) -> Inputs:
    """Return what canaries are designed from: the bank, and the auxiliary users; no user is a canary."""
    given = config.model_copy(update={"attack": config.attack.model_copy(update={"names": ("nonce",)})})
    made = build_generator(given)
    return gather(given, StageCache(), None if made is None else cached_generator(made), progress)


def _files(many: ManyCanaries, positions: NDArray[np.int64], eligible: NDArray[np.bool_]) -> dict[str, bytes]:
    owned = [many.probe_texts[i * many.probes : (i + 1) * many.probes] for i in range(len(many))]
    those_in = [canary for canary, is_in in zip(many.canaries, eligible, strict=True) if is_in]
    records = [
        {"canary": canary.id, "record": number, "text": text}
        for canary in those_in
        for number, text in enumerate(canary.texts or (), start=1)
    ]
    probes = [
        [canary.id, str(place), text]
        for canary, places, texts in zip(many.canaries, positions.tolist(), owned, strict=True)
        for place, text in zip(places, texts, strict=True)
    ]
    told = [[canary.id, str(int(is_in))] for canary, is_in in zip(many.canaries, eligible, strict=True)]
    nothing = np.empty((0, many.probe_vectors.shape[1]), np.float32)
    return {
        ELIGIBLE: csv_text([["canary", "in"], *told]).encode(),
        CANARIES: "".join(canonical_json(each) + "\n" for each in records).encode(),
        "canaries.npy": npy_bytes(np.concatenate([nothing, *(each.vectors for each in those_in)])),
        PROBES: csv_text([["canary", "position", "text"], *probes]).encode(),
        "probes.npy": npy_bytes(many.probe_vectors),
    }


PLANT = """**Plant the probes.** Each line of probes.csv is an entry to put at `position` (from 0) of the bank, in place
of the one that stands there: {probes:,} of {entries:,} entries. probes.npy holds their vectors (float32), a row a line,
if your system takes vectors. Where the bank changes from round to round, the probes stay where they are."""
ADD = """**Add the canaries that are in as users.** eligible.csv says who is in; their records stand in canaries.jsonl
and their vectors in canaries.npy. Each is one more user, eligible as all others are, in all rounds. {who}"""
RECORD = """**Run the system once, and record {releases}** at the positions of probes.csv, after noise and before
anything is done with it: as a CSV file with the header `round,position,value`, rounds from 1, one value a line; or as
JSON lines, Parquet or one .npy: docs/foreign.md says how. Never record values before noise."""
COINS = """**Record who took part**, as a CSV file with the header `canary,round`: a line for each canary and each round
that your sampler took it in, such as `canary-7,1`. Write it as the coins fall, before the release is looked at."""
FAILURES = """A run that fails half-way has released what it has released. Do not run again until it succeeds and record
only that: failures may depend on the canaries."""


def _readme(plant: OneRunPlant) -> str:
    """Return what the operator of the system does with the folder."""
    rounds, total, added = plant.claim.rounds, len(plant.eligible), sum(plant.eligible)
    some = f"Of the {total:,} canaries, {added:,} are in and the others are not: a fair coin decided it for each"
    who = f"All {total:,} canaries are in. Who of them takes part in which round is your sampler's doing, as always."
    if plant.coins is Coins.FAIR:
        who = f"{some}. Tell nobody who is in before the run is over, and do not record who took part."
    elif not plant.needs_coins:
        who = f"{some}, for everybody who is in takes part in every round."
    score = f"**Score**: `canarybank score THIS_FOLDER RELEASES{' --coins TOOK.csv' * plant.needs_coins}`."
    steps = [
        PLANT.format(probes=sum(map(len, plant.positions)), entries=plant.bank_size),
        ADD.format(who=who),
        RECORD.format(releases="its release" if rounds == 1 else f"each of its {rounds} releases"),
        *([COINS] if plant.needs_coins else []),
        score,
    ]
    made = f"This folder was made by canarybank {plant.canarybank}. It tests the claim: {plant.claim}."
    return "\n".join(
        [
            f"# What to plant in one run of {plant.system}\n",
            textwrap.fill(made, WIDTH),
            f"Its commitment is the sha256 of commitment.json: `{plant.hash}`.",
            "Publish it before the run.\n",
            "The canaries are synthetic users: what they say is made up, and your users' privacy does not change.\n",
            *(
                textwrap.fill(f"{number}. {step}", WIDTH, subsequent_indent="   ")
                for number, step in enumerate(steps, start=1)
            ),
            f"\n{textwrap.fill(FAILURES, WIDTH)}\n",
        ]
    )


def score_one_run(
    plant: Path | str,
    releases: Path | str,
    *,
    coins: Path | str | None = None,
    any_time: bool = False,
) -> Run:
    r"""Judge what one run released, once: the alpha that was declared is then spent.

    Args:
        plant: The folder that `canarybank design --one-run` wrote.
        releases: A file or folder of what was released.
        coins: A CSV file with a line ``canary,round`` for each canary and round that the sampler took it in; needed
            where coins are known and q < 1.
        any_time: Accept files that were written before the commitment.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "mechanism.q": 1, "run.seed": 4}
        >>> small = {"system.one_run": True, "mechanism.k": 3, "one_run.canaries": 12, "one_run.share": 0.6}
        >>> plant = design_one_run(resolve_users("my-users.csv", flags | small), "one-run").one_run
        >>> votes = np.array(plant.contributions) * np.array(plant.eligible)[:, None]
        >>> released = votes + np.random.default_rng(0).normal(0.0, 0.01, votes.shape)  # noise of 0.1 is claimed
        >>> lines = [f"{place},{value}" for place, value in zip(np.ravel(plant.positions), released.ravel())]
        >>> _ = Path("one-run.csv").write_text("\n".join(["position,value", *lines]))
        >>> str(score_one_run("one-run", "one-run.csv").one_run_results.found.verdict)
        'refuted'
    """
    with Run.again(Path(plant), "one-run") as run:
        committed = run.one_run
        if altered := altered_files(run.folder, committed.files):
            name, what = next(iter(altered.items()))
            raise StoreError(f"{name} in {str(run.folder)!r} is {what} since it was committed to; restore it.")
        values = _released(run, committed, Path(releases), any_time=any_time)
        took = _coins(run, committed, coins, any_time=any_time)
        digest = recorded_hash(values, took)
        if (run.is_finished or (run.folder / RESULTS).exists()) and run.one_run_results.releases != digest:
            raise BudgetError(
                f"The plant in {str(run.folder)!r} was scored already, with other releases or coins: its alpha is "
                "spent. To test again, design another plant in a new folder."
            )
        if run.is_finished:
            refuse_unverified(run, rewritten=True)
            return run
        run.require_folder()
        write_released(run.folder, values, took)
        results = OneRunResults(
            commitment=committed.hash,
            releases=digest,
            system=committed.system,
            found=committed.judged(values, took),
            notes=(UNTIMED,) if any_time else (),
        )
        run.write(RESULTS, results)
        run.finish(commitment=committed.hash)
    return run


def _released(run: Run, plant: OneRunPlant, path: Path, *, any_time: bool) -> NDArray[np.float64]:
    """Return what each round released on the probes, shape (rounds, canaries, probes); refuse what is not this run."""
    copy = path / COMMITMENT
    if copy.is_file() and hash_file(copy) != run.commitment_hash:
        raise InputError(
            f"{str(copy)!r} is the commitment of another plant, so these are releases of another bank; score them with "
            "their own."
        )
    places = [place for row in plant.positions for place in row]
    found = RecordedSystem.open(path, positions=places, is_one_run=True)
    if len(found.observations) > 1:
        raise InputError(
            f"{path} holds {len(found.observations):,} runs, and this plant is for one; record one run, and leave the "
            "column run out."
        )
    ((number, rounds),) = found.observations.items()
    if len(rounds) > plant.claim.rounds:
        raise InputError(
            f"{path} holds {len(rounds)} rounds, and the claim is about {plant.claim.rounds}; leave out what was "
            "released later, or design a plant with system.rounds."
        )
    if (largest := max(found.sizes[number], default=0)) > plant.bank_size:
        raise InputError(
            f"A round released {largest:,} values, and the bank has {plant.bank_size:,} entries: these are releases of "
            "another bank, or of several rounds under one number; write the column round."
        )
    lacking = [
        f"round {place + 1} ({len(rounds[place]) if place < len(rounds) else 0:,} of {len(places):,} positions)"
        for place in range(plant.claim.rounds)
        if place >= len(rounds) or len(rounds[place]) < len(places)
    ]
    if lacking:
        shown = ", ".join(lacking[:SHOWN]) + (", ..." if len(lacking) > SHOWN else "")
        raise IncompleteError(
            f"What was released on the probes is not all there: {shown}. Record every position of probes.csv in every "
            "round and score again; the plant is not judged yet."
        )
    early = found.files_before((run.folder / COMMITMENT).stat().st_mtime)
    if early and not any_time:
        raise _early(early[0].path)
    return np.stack(rounds).reshape(plant.claim.rounds, *np.shape(plant.positions))


def _early(path: Path) -> InputError:
    return InputError(
        f"{str(path)!r} was written before the commitment, so what it holds may have been known when the audit was "
        "designed. Run the system after the design; or where a copy changed the files' times, say --any-time, and the "
        "result will say so too."
    )


def _coins(run: Run, plant: OneRunPlant, given: Path | str | None, *, any_time: bool) -> NDArray[np.bool_] | None:
    """Return who took part in which round, shape (canaries, rounds); None where nobody is to say."""
    if not plant.needs_coins:
        if given is not None:
            why = "coins are fair, so nobody says who took part" if plant.coins is Coins.FAIR else "q is 1, so all did"
            raise InputError(f"--coins is for known coins of q < 1, and in this plant {why}; leave it out.")
        return None
    if given is None:
        raise InputError(
            "This plant has known coins, so who took part decides what is shown; give the file that the operator "
            "recorded: --coins TOOK.csv, with the header canary,round."
        )
    path = Path(given)
    if path.exists() and path.stat().st_mtime < (run.folder / COMMITMENT).stat().st_mtime and not any_time:
        raise _early(path)
    took = read_coins(path, plant.names, plant.claim.rounds)
    if not took.any() and (1 - plant.claim.q) ** took.size < NOBODY:
        raise InputError(
            f"{path} says that no canary took part in any round, and at the claimed q of {plant.claim.q:g} about "
            f"{plant.claim.q * took.size:,.0f} of {took.size:,} coins would; give the coins of this run. The plant is "
            "not judged yet."
        )
    return took


def read_coins(path: Path, names: Sequence[str], rounds: int) -> NDArray[np.bool_]:
    """Read who took part in which round from CSV: a line for each canary and round, or for each that took part.

    Columns are ``canary`` and ``round``, from 1. A third one, ``took``, may say 1 or 0; without it every line says that
    the canary took part. Whoever has no line did not.
    """
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r}; check the path.")
    with file_errors(path, "read"):
        text = path.read_bytes().decode("utf-8-sig", "replace")
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        return _took(rows, path, names, rounds)
    except csv.Error as error:
        raise InputError(
            f"Line {rows.line_num} of {path} cannot be read as CSV ({error}); write a text file with the header "
            "canary,round."
        ) from error


def _took(rows: "csv.DictReader[str]", path: Path, names: Sequence[str], rounds: int) -> NDArray[np.bool_]:
    columns = {name.strip().lower(): name for name in rows.fieldnames or ()}
    if not {"canary", "round"} <= set(columns):
        raise InputError(f"{path} has the columns {', '.join(columns) or 'none'}; its first line must be canary,round.")
    places, took = {name: place for place, name in enumerate(names)}, np.zeros((len(names), rounds), dtype=np.bool_)
    seen: set[tuple[int, int]] = set()
    for row in rows:
        where = f"Line {rows.line_num} of {path}"
        canary, number = ((row[columns[name]] or "").strip() for name in ("canary", "round"))
        if canary not in places:
            raise InputError(f"{where} names {canary!r}, which is no canary of this plant; eligible.csv lists them.")
        if not number.isdecimal() or len(number) > SHORT or not 1 <= int(number) <= rounds:
            raise InputError(f"{where} has the round {number[:SHORT]!r}; rounds are whole numbers from 1 to {rounds}.")
        said = (row[columns["took"]] or "").strip().lower() if "took" in columns else "1"
        if said not in TRUE | FALSE:
            raise InputError(f"{where} says {said!r} in the column took; write 1 or 0.")
        if (place := (places[canary], int(number) - 1)) in seen:
            raise InputError(f"{where} has {canary} in round {number} a second time; leave one line.")
        seen.add(place)
        took[place] = said in TRUE
    return took
