import logging
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

from canarybank.config import resolve
from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.engine import Processes, Serial
from canarybank.errors import ColumnError, ConfigError, DataError, MissingError
from canarybank.flow.real_run import HiddenEngine, encode_users, hidden, is_real, require_isolated, require_private
from canarybank.progress import SILENT, Lines
from canarybank.users import Users


def config(**flags):
    return resolve(flags={key.replace("__", "."): value for key, value in flags.items()}).config


class Fussy(HashingEncoder):
    """An encoder that refuses some texts, and gives another no finite vector."""

    def encode(self, texts, /):
        if any("bad" in text for text in texts):
            raise ValueError("bad text")
        vectors = super().encode(texts).copy()
        vectors[[i for i, text in enumerate(texts) if "nan" in text]] = np.nan
        return vectors


@pytest.fixture
def fussy(tmp_path):
    return CachedEncoder(Fussy(), VectorCache(tmp_path))


def users(*texts):
    """Return users a, b, c ... with two records each."""
    return Users(tuple("abcdef"[: len(texts) // 2]), np.repeat(np.arange(len(texts) // 2), 2), texts=texts)


def test_a_real_run_is_one_without_a_seed():
    assert is_real(config())
    assert not is_real(config(evolve__insecure_seed=0))


def test_every_refusal_is_said_at_once():
    with pytest.raises(ConfigError, match=r"users\.limit.*evolve\.reference.*--insecure-seed 0"):
        require_private(config(users__limit=3, evolve__reference=2))
    require_private(config(users__limit=3, evolve__reference=2, evolve__insecure_seed=0))
    require_private(config(evolve__users=3, evolve__population=30, users__strict=False))


def test_an_encoder_says_that_it_is_isolated():
    require_isolated(HashingEncoder())

    class Other:
        name = "other"

    with pytest.raises(ConfigError, match="such as wordllama"):
        require_isolated(Other())


def test_a_record_that_cannot_be_encoded_takes_no_other_with_it(fussy):
    kept = encode_users(users("x", "bad", "bad", "nan", "y", "z"), fussy)
    assert kept.ids == ("a", "c")
    assert kept.texts == ("x", "y", "z")
    np.testing.assert_array_equal(kept.vectors, HashingEncoder().encode(["x", "y", "z"]))


def test_a_text_on_which_an_encoder_panics_takes_no_other_with_it(tmp_path):
    class Panicking(HashingEncoder):
        def encode(self, texts, /):
            if any("bad" in text for text in texts):
                raise Panic(texts)
            return super().encode(texts)

    kept = encode_users(users("x", "bad", "y", "z"), CachedEncoder(Panicking(), VectorCache(tmp_path)))
    assert kept.texts == ("x", "y", "z")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_process_ends_private_work(stop, tmp_path):
    class Stopping(HashingEncoder):
        def encode(self, _texts, /):
            raise stop

    with pytest.raises(stop), hidden("encoding", SILENT):
        encode_users(users("x", "y"), CachedEncoder(Stopping(), VectorCache(tmp_path)))


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


def test_nobody_is_encoded_too(fussy):
    assert encode_users(Users((), [], texts=()), fussy).vectors.shape == (0, 64)
    assert len(encode_users(users("bad", "bad"), fussy)) == 0


class Panic(BaseException):
    """What a library in Rust raises, which is no ``Exception``."""


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


class Elsewhere:
    """An engine and a host whose work runs as if in another process."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch

    def run(self, function, tasks):
        with self._monkeypatch.context() as patched:
            patched.setattr("canarybank.flow.real_run._PROCESS", "another")
            yield from ((index, function(*task)) for index, task in enumerate(tasks))

    def host(self, make):
        return self if make is not None else None


def test_work_on_objects_that_are_held_elsewhere_is_hidden_too(monkeypatch, capfd):
    engine = HiddenEngine(Elsewhere(monkeypatch))

    def work(held, name):
        os.write(2, name.encode())
        return look_around(held and name)

    for place in (engine, engine.host(look_around)):
        assert list(place.run(work, [("", "alice")])) == [(0, ([True, True], False))]
        with pytest.raises(DataError, match="The step 'counting votes' failed"):
            list(place.run(work, [("a model", "alice")]))
    assert capfd.readouterr() == ("", "")
    assert engine.host(None) is None
    assert HiddenEngine(Serial()).host(look_around) is None
