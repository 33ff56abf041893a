"""A small world for the neighbour test: rows as files of every format, newcomers, and the ways to run an evolution."""

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import tarfile
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from scripted_answers import WRITER, answering

from canarybank.cli import evolve as evolve_command
from canarybank.cli import main
from canarybank.errors import GenerationError
from canarybank.evolution import Voters
from canarybank.testing import (
    Performance,
    check_neighbours,
    compare_worlds,
    perform_evolution,
    run_world,
)
from canarybank.testing.neighbours import scripted_draws, voter_names

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sun",
    "rain",
    "soup",
    "bread",
    "walk",
    "run",
    "blue",
    "green",
    "tall",
    "sad",
    "river",
]
COLUMNS = ("user", "text", "label")
NAMES = {
    "latin-1": "users.csv",
    "tgz": "users.jsonl.tgz",
    "inferred": "users.parquet",
    "yelp": "yelp_academic_dataset_review.json",
    "sentiment140": "training.1600000.processed.noemoticon.csv",
}


def sentence(rng, size=6):
    return " ".join(rng.choice(WORDS, size=size))


def answer(request):
    return f"I saw the {sentence(np.random.default_rng(request.seed))}."


def delimited(rows, *, delimiter=",", encoding="utf-8"):
    """Write rows as lines of fields; bytes among them are lines as they are."""
    lines = []
    for row in [COLUMNS, *rows]:
        text = io.StringIO()
        if isinstance(row, bytes):
            lines.append(row)
            continue
        quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
        csv.writer(text, delimiter=delimiter, quoting=quoting, quotechar='"', escapechar="\\").writerow(row)
        lines.append(text.getvalue().rstrip("\r\n").encode(encoding, "replace"))
    return b"\n".join(lines) + b"\n"


def json_lines(rows):
    return b"".join(
        (row if isinstance(row, bytes) else json.dumps(dict(zip(COLUMNS, row, strict=True))).encode()) + b"\n"
        for row in rows
    )


def parquet(rows):
    """Write rows as people do who let the type of ids follow from them: numbers, or text where one of them is text."""
    import polars as pl

    ids = [row[0] for row in rows]
    if any(isinstance(each, str) for each in ids):
        ids = [each if isinstance(each, str) or each is None else str(int(each)) for each in ids]
    elif any(isinstance(each, float) or each is None for each in ids):
        ids = [None if each is None else float(each) for each in ids]
    frame = {"user": ids, "text": [row[1] for row in rows], "label": [row[2] for row in rows]}
    file = io.BytesIO()
    pl.DataFrame(frame, schema_overrides={"text": pl.String, "label": pl.String}).write_parquet(file)
    return file.getvalue()


def zipped(rows):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("about.txt", "not this one")
        archive.writestr("users.csv", delimited(rows))
    return file.getvalue()


def tarred(rows):
    file, content = io.BytesIO(), json_lines(rows)
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo("in/users.jsonl")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(gzip.decompress(file.getvalue()), mtime=0)


def inferring(rows):
    """Write rows as those do who read a CSV file and store it as Parquet: types follow from all the rows."""
    import polars as pl

    file = io.BytesIO()
    pl.read_csv(delimited(rows), try_parse_dates=True, infer_schema_length=None).write_parquet(file)
    return file.getvalue()


def yelp(rows):
    lines = (json.dumps({"user_id": str(user), "text": text, "stars": label}) for user, text, label in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def sentiment140(rows):
    lines = (f'"{label}","1","Mon","NO_QUERY","{user}","{text}"\n' for user, text, label in rows)
    return "".join(lines).encode("latin-1", "replace")


WRITERS = {
    "tgz": tarred,
    "inferred": inferring,
    "yelp": yelp,
    "sentiment140": sentiment140,
    "csv": delimited,
    "tsv": partial(delimited, delimiter="\t"),
    "jsonl": json_lines,
    "parquet": parquet,
    "csv.gz": lambda rows: gzip.compress(delimited(rows), mtime=0),
    "zip": zipped,
    "latin-1": partial(delimited, encoding="latin-1"),
}
EXTRA = {
    "zip": {"users.member": "users.csv"},
    "latin-1": {"users.encoding": "latin-1"},
    "tgz": {"users.member": "users.jsonl"},
    "yelp": {"users.label": "stars", "users.minimum": 1},
    "sentiment140": {"users.label": "target", "users.minimum": 1},
}


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def toml(settings):
    """Write settings as a TOML file would hold them."""
    sections = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    return "\n".join(f"[{section}]\n" + "\n".join(lines) for section, lines in sections.items())


@dataclass(frozen=True)
class Lab:
    """Run the neighbour test over small evolutions, from Python or by the command line."""

    folder: Path
    settings: dict
    rows: tuple

    def file(self, kind, rows=None):
        return WRITERS[kind](list(self.rows if rows is None else rows))

    def options(self, kind, settings=None):
        return {**self.settings, **EXTRA.get(kind, {}), **(settings or {})}

    def joined(self, newcomer, position, rows=None):
        """Return the rows with those of a newcomer first, in the middle or last."""
        known = list(self.rows if rows is None else rows)
        place = {"first": 0, "middle": len(known) // 2 + 1, "last": len(known)}[position]
        return [*known[:place], *newcomer, *known[place:]]

    def many_users(self, newcomer=()):
        """Return the rows of seventy users, of whom sixteen have many records, and of a newcomer after them."""
        rng = np.random.default_rng(3)
        counts = [9 if i < 16 else 2 for i in range(70)]
        return [*((f"u{i}", sentence(rng), "a") for i, count in enumerate(counts) for _ in range(count)), *newcomer]

    def python(self, settings, folder, releaser, script=answer):
        """Run an evolution from Python; a script answers in the generator's place."""
        with (
            answering(script) as made,
            patch("os.fsync", lambda _: None),  # nothing here survives the test
        ):
            done = perform_evolution(settings, folder, releaser)
        return Performance(done.code, done.out, done.err, tuple(map(repr, made.asked)))

    def cli(self, *flags, terminal=False):
        """Return what runs an evolution by the real command line, with these flags."""

        def perform(settings, folder, releaser):
            file = folder.parent / "settings.toml"
            file.write_text(toml(settings))
            out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
            with (
                answering(answer) as made,
                patch.object(evolve_command, "evolve_into", partial(evolve_command.evolve_into, releaser=releaser)),
                patch("os.fsync", lambda _: None),
                patch("rich.live._RefreshThread.run", lambda _: None),  # bars are drawn when they change, not by time
                patch.dict(os.environ, COLUMNS="100", TERM="xterm"),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                code = main(["evolve", str(file), "--folder", str(folder), *flags])
            return Performance(code, out.getvalue(), err.getvalue(), tuple(map(repr, made.asked)))

        return perform

    def resumed(self, users=None):
        """Return what runs an evolution whose generator fails after the first round, and then resumes it.

        ``users`` are the bytes that stand in the file of users by then.
        """

        def perform(settings, folder, releaser):
            answers = iter(range(25))

            def failing(request):
                if next(answers, None) is None:
                    raise GenerationError("The server is gone.")
                return answer(request)

            first = self.python(settings, folder, releaser, failing)
            assert first.code == GenerationError.exit_code
            if users is not None:
                Path(settings["users.source"]).write_bytes(users)
            then = self.python(settings, folder, releaser)
            return Performance(then.code, first.out + then.out, first.err + then.err, first.requests + then.requests)

        return perform

    def drawing(self, settings, folder, _releaser):
        """Run an evolution that draws its releases itself, from coins and noise that can be repeated."""
        draw, rounds = Voters.release, itertools.count()

        def release(voters, *given):
            with scripted_draws(voter_names(voters), next(rounds)):
                return draw(voters, *given)

        with patch.object(Voters, "release", release):
            return self.python(settings, folder, None)

    def world(self, users, kind="csv", settings=None, perform=None, seed=0):
        """Run one world, with the caches of those before it."""
        name = NAMES.get(kind, f"users.{kind}")
        options = self.options(kind, settings)
        return run_world(perform or self.python, options, users, self.folder / "place", name=name, seed=seed)

    def check(self, without, joined, kind="csv", settings=None, perform=None):
        """Run both worlds once, with whatever the caches hold, and compare them."""
        worlds = (self.world(users, kind, settings, perform) for users in (without, joined))
        return compare_worlds(*worlds)

    def check_all(self, without, joined, kind="csv", settings=None, perform=None):
        """Run the public helper: cold and warm caches."""
        name = NAMES.get(kind, f"users.{kind}")
        place, options = self.folder / "place", self.options(kind, settings)
        return check_neighbours(perform or self.python, options, without, joined, place, name=name)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Return eight users with two to six records each, of which the ids are whole numbers, and a bank."""
    folder, rng = tmp_path_factory.mktemp("lab"), np.random.default_rng(7)
    bank = list(dict.fromkeys(sentence(rng) for _ in range(40)))
    (folder / "bank.txt").write_text("\n".join(bank) + "\n")
    rows = tuple((i, sentence(rng), "ab"[i % 2]) for i in range(1, 9) for _ in range(6 if i <= 4 else 2))
    settings = {
        "users.label": "label",
        "bank.source": str(folder / "bank.txt"),
        "bank.size": 30,
        "encoder.name": "hashing",
        "generator.kind": WRITER,
        "mechanism.k": 3,
        "mechanism.q": 0.5,
        "evolve.rounds": 2,
        "evolve.share": 0.5,
        "evolve.near": 1.0,
    }
    return Lab(folder, settings, rows)
