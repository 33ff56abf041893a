"""Record the answers that the embedded evolution asks for, seeded with 0, alone and audited by nonce-mueff.

    python tools/make_evolution.py [FOLDER]

It runs both evolutions with SmolLM2 in FOLDER (a few minutes on an idle machine; run it again to resume) and writes the
answers that they used as package data. Do so after the embedded bank, the preset or a prompt has changed. Two further
seeds are run for their figures alone; the preset was chosen by none of the three, but by seeds 10 to 12.
"""

import sys
from pathlib import Path

from canarybank.config import resolve
from canarybank.flow import run_evolution
from canarybank.flow.generators import ANSWERS_FILE, EMBEDDED_PRESET, FACTS_FILE
from canarybank.generate import LlamaCppGenerator, ResponseCache
from canarybank.measure import Worth
from canarybank.progress import for_stream
from canarybank.run import Run
from canarybank.store import write_json

DATA = Path(__file__).parents[1] / "src" / "canarybank" / "flow" / "data"
SEED, OTHERS = 0, (1, 2)
AUDIT = "nonce-mueff"
TRIALS = 100_000
MEASURES = ("mauve", "precision", "recall", "density", "coverage")


def main() -> None:
    """Run both evolutions and write what they asked for."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/record")
    told = {"evolve.insecure_seed": SEED, "audit.trials": TRIALS}
    runs = [_run(folder / "plain", told), _run(folder / "audited", told | {"evolve.audit": AUDIT})]
    answers = ResponseCache()
    for log in (path for run in runs for path in sorted(run.folder.glob("*/responses.log"))):
        _take(answers, log)
    count = answers.export(DATA / ANSWERS_FILE)
    model = LlamaCppGenerator()
    facts = {
        "about": "Answers of SmolLM2-135M-Instruct to what the embedded evolution asks, seeded with 0.",
        "generator": model.name,
        "fingerprint": model.fingerprint,
        "answers": count,
        "command": "python tools/make_evolution.py",
        "runs": [
            f"evolve --preset {EMBEDDED_PRESET} --insecure-seed {SEED}{more}" for more in ("", f" --audit {AUDIT}")
        ],
        "figures": [_figures(run) for run in runs],
        "other_seeds": {
            str(seed): _figures(_run(folder / f"seed-{seed}", {"evolve.insecure_seed": seed})) for seed in OTHERS
        },
    }
    write_json(DATA / FACTS_FILE, facts)
    print(f"{count} answers, {(DATA / ANSWERS_FILE).stat().st_size:,} bytes")


def _run(folder: Path, told: dict[str, object]) -> Run:
    return run_evolution(resolve(flags=told, preset=EMBEDDED_PRESET), folder, progress=for_stream(sys.stderr))


def _take(answers: ResponseCache, log: Path) -> None:
    # A log holds exactly what its run used; an export of it is how one cache takes another's answers.
    exported = log.with_suffix(".jsonl.gz")
    ResponseCache(log).export(exported)
    answers.load(exported)
    exported.unlink()


def _figures(run: Run) -> dict[str, object]:
    """Return the figures of a run's populations at one size, and those of other cuts of the first."""
    worth = run.results.evolution and run.results.evolution.utility
    compared = worth and worth.compared
    assert compared  # noqa: S101, the preset holds users out
    return {"size": compared.size, "sets": _rows(compared.sets), "chance": _rows(compared.chance)}


def _rows(sets: tuple[Worth, ...]) -> list[dict[str, float | None]]:
    return [{name: getattr(each, name) for name in MEASURES} for each in sets]


if __name__ == "__main__":
    main()
