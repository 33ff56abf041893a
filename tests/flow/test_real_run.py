import logging
import os
import sys
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from odd_encoders import Panic

from canarybank.config import resolve
from canarybank.encode import VectorCache
from canarybank.engine import Processes, Serial
from canarybank.errors import ColumnError, ConfigError, DataError, MissingError
from canarybank.evolution import DrawnReleases, Evolution
from canarybank.flow import run_evolution
from canarybank.flow.real_run import HiddenEngine, hidden
from canarybank.progress import SILENT, Lines


@pytest.fixture
def real(evolving):
    """Return the settings of a real run of one round."""
    left = {key: value for key, value in evolving.items() if key != "evolve.insecure_seed"}
    return left | {"evolve.rounds": 1, "mechanism.q": 1.0}


def seeded(voters, plan):
    """Draw the releases of a real run by a seed, so that two runs over the same votes release the same."""
    return DrawnReleases(voters, replace(plan, insecure_seed=3))


@pytest.fixture
def released(real, scripted, tmp_path):
    """Return a function that gives what a real run over records releases: users a, b, c ... have two each."""
    del scripted  # it answers meanwhile

    def release(*texts, encoder="odd_encoders:Fussy", users="aabbccdd", **flags):
        rows = [f"{user},{text}" for user, text in zip(users, texts, strict=False)]
        (tmp_path / "users.csv").write_text("\n".join(["user,text", *rows]) + "\n")
        told = real | {"encoder.name": encoder, "users.source": str(tmp_path / "users.csv")} | flags
        folder = tmp_path / f"run {len(list(tmp_path.iterdir()))}"
        run = run_evolution(resolve(flags=told), folder, releaser=seeded)
        return Evolution.load(run.folder / "evolution").rounds[0].release

    return release


@pytest.mark.usefixtures("scripted")
def test_every_refusal_is_said_at_once(real, tmp_path):
    asked = real | {"users.limit": 3, "evolve.reference": 2, "users.strict": True, "evolve.audit": "nonce"}
    said = (
        r"nonce is a simulation.*users\.limit cannot.*users\.strict cannot.*evolve\.reference cannot.*--insecure-seed 0"
    )
    with pytest.raises(ConfigError, match=said):
        run_evolution(resolve(flags=asked), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    "flags",
    [
        {"users.limit": 20, "evolve.reference": 2, "evolve.mauve": False, "evolve.insecure_seed": 0},
        {"evolve.users": 3, "evolve.population": 30, "users.strict": False},
    ],
)
def test_a_simulation_and_what_is_declared_public_are_not_refused(flags, real, tmp_path):
    assert run_evolution(resolve(flags=real | flags), tmp_path / "run").is_finished


@pytest.mark.usefixtures("scripted")
def test_an_encoder_that_does_not_say_that_it_is_isolated_is_refused(real, tmp_path):
    told = real | {"encoder.name": "odd_encoders:Mixing"}
    with pytest.raises(ConfigError, match="such as wordllama"):
        run_evolution(resolve(flags=told), tmp_path / "real")
    assert run_evolution(resolve(flags=told | {"evolve.insecure_seed": 0}), tmp_path / "simulated").is_finished


@pytest.mark.parametrize("word", ["refuse", "panic", "nan"])
def test_a_record_that_cannot_be_encoded_takes_no_other_with_it(word, released):
    # A user who has no other record stays away: the coins of those who come are drawn for them alone.
    found = released("the cat", f"a {word}", f"{word} one", f"{word} two", "soup and bread", "the old road")
    assert np.array_equal(found, released("the cat", "soup and bread", "the old road", users="acc"))
    assert not np.array_equal(found, released("the dog", "soup and bread", "the old road", users="acc"))


def test_a_gpu_without_memory_takes_nobodys_vote_in_silence(released):
    with pytest.raises(DataError, match="A real run does not say why"):
        released("the cat", "a full card")


@pytest.mark.usefixtures("fresh_cache")
def test_a_real_run_never_encodes_in_low_precision(released):
    texts, kept = ["the cat", "a dog", "the sun", "rain"], []
    expected = released(*texts, encoder="hashing", **{"run.shards": 2})
    for keep in (False, None):
        told = {"run.shards": 2, "encoder.keep_vectors": keep}
        assert released(*texts, encoder="odd_encoders:Tempting", **told).tobytes() == expected.tobytes()
        kept.append(sum(shelf.vectors for shelf in VectorCache().usage()))
    assert kept[1] - kept[0] == len(texts)  # the bank's are kept in any case


def test_nobody_is_encoded_too(released):
    assert np.array_equal(released(), released("refuse one", "refuse two"))


def test_what_ends_the_process_ends_private_work(released):
    with pytest.raises(KeyboardInterrupt):
        released("the cat", "interrupt")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_process_is_not_hidden(stop):
    with pytest.raises(stop), hidden("encoding", SILENT):
        raise stop


def test_nothing_that_private_work_prints_is_shown(capfd):
    sys.stdout.write("before\n")
    with hidden("reading users", Lines(sys.stderr)):
        for stream in (sys.stdout, sys.stderr, sys.__stdout__):
            stream.write("alice\n")
        os.write(1, b"alice")
        os.write(2, b"alice")
    sys.stdout.write("after\n")
    os.write(2, b"and after\n")
    out, err = capfd.readouterr()
    assert out == "before\nafter\n"
    assert err == "reading users: started\nreading users: done\nand after\n"


@pytest.mark.parametrize(
    "error", [DataError("line 7 of alice"), ValueError("alice"), MemoryError(), KeyError("alice"), Panic("alice")]
)
def test_an_error_of_private_work_says_nothing_of_it(error):
    with pytest.raises(DataError, match="The step 'reading users' failed") as found, hidden("reading users", SILENT):
        raise error
    assert "alice" not in str(found.value)
    assert found.value.__cause__ is None
    assert found.value.__suppress_context__


@pytest.mark.parametrize("error", [ColumnError("No column.", "Name it."), MissingError("Install it.")])
def test_what_is_no_matter_of_rows_is_said(error):
    with pytest.raises(type(error)), hidden("reading users", SILENT):
        raise error


def test_warnings_and_logs_of_private_work_are_dropped(caplog):
    with hidden("reading users", SILENT):
        warnings.warn("alice", stacklevel=1)
        logging.getLogger("other").critical("alice")
    assert not caplog.records
    logging.getLogger("other").critical("heard again")
    assert len(caplog.records) == 1


def look_around(name):
    """Return where descriptors 1 and 2 of this process lead, and whether log messages pass; or fail over a name."""
    if name:
        time.sleep(0.2)  # until the other task's result is taken
        raise DataError(f"line 7 of {name}")
    nowhere = Path(os.devnull).stat()
    return [os.path.samestat(os.fstat(each), nowhere) for each in (1, 2)], logging.getLogger().isEnabledFor(50)


def test_workers_of_private_work_print_nothing_and_their_errors_say_nothing_of_it():
    work = HiddenEngine(Processes(1)).run(look_around, ["", "alice"])
    assert next(work) == (0, ([True, True], False))
    with pytest.raises(DataError, match="The step 'counting votes' failed") as found:
        next(work)
    assert "line 7 of" not in "".join(traceback.format_exception(found.value))


def test_work_in_this_process_is_left_to_whoever_hides_it():
    with pytest.raises(DataError, match="line 7 of alice"):
        list(HiddenEngine(Serial()).run(look_around, ["alice"]))


def look_around_holding(held, name):
    """Print a name, and look around; or fail over it."""
    os.write(2, name.encode())
    return look_around(held and name)


class Elsewhere:
    """An engine and a host whose work was sent by another process."""

    def run(self, function, tasks):
        work = replace(function, process=("another", 1))
        yield from ((index, work(*task)) for index, task in enumerate(tasks))

    def host(self, make):
        return self if make is not None else None


def test_work_on_objects_that_are_held_elsewhere_is_hidden_too(capfd):
    engine = HiddenEngine(Elsewhere())
    for place in (engine, engine.host(look_around)):
        assert list(place.run(look_around_holding, [("", "alice")])) == [(0, ([True, True], False))]
        with pytest.raises(DataError, match="The step 'counting votes' failed"):
            list(place.run(look_around_holding, [("a model", "alice")]))
    assert capfd.readouterr() == ("", "")
    assert engine.host(None) is None
    assert HiddenEngine(Serial()).host(look_around) is None
