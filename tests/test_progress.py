import io
import time

import pytest

from canarybank.progress import SILENT, Bars, Lines, for_stream


def test_lines_say_start_progress_and_end():
    stream = io.StringIO()
    with Lines(stream, every=0, short=0).stage("trials", total=10, unit="trials") as stage:
        stage.advance(5, note="3 false positives")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "trials: started"
    assert lines[1].startswith("trials: 5 of 10 trials, ")
    assert lines[1].endswith("; 3 false positives")
    assert lines[-1].startswith("trials: done in ")


def test_a_short_stage_writes_no_line():
    stream = io.StringIO()
    with Lines(stream).stage("encoding", total=64, unit="texts") as stage:
        stage.advance(64)
    assert stream.getvalue() == ""


def test_a_stage_is_announced_while_it_lasts_even_if_nothing_advances():
    stream = io.StringIO()
    with Lines(stream, short=0.05).stage("encoding"):
        deadline = time.monotonic() + 20
        while not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert stream.getvalue() == "encoding: started\n"
    assert stream.getvalue().splitlines()[1].startswith("encoding: done in ")


def test_a_stage_that_fails_does_not_say_done():
    stream = io.StringIO()
    with pytest.raises(ValueError, match="broken"), Lines(stream, short=0).stage("trials"):
        raise ValueError("broken")
    assert "done" not in stream.getvalue()


def test_slow_work_has_a_rate_too():
    stream = io.StringIO()
    with Lines(stream, every=0, short=0).stage("designing", total=9, unit="canaries") as stage:
        time.sleep(0.5)
        stage.advance(1)
    rate = stream.getvalue().splitlines()[1].split(", ")[1]
    assert rate.endswith("/s")
    assert 0 < float(rate.removesuffix("/s")) <= 2


def test_silence_says_nothing(capsys):
    with SILENT.stage("x", total=2) as stage:
        stage.advance(2)
    assert capsys.readouterr() == ("", "")


def test_a_stream_that_is_no_terminal_gets_lines_and_quiet_gets_silence():
    assert isinstance(for_stream(io.StringIO()), Lines)
    assert for_stream(io.StringIO(), quiet=True) is SILENT


def test_bars_say_stage_count_rate_and_note(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    with Bars(short=0).stage("encode", total=4, unit="texts") as stage:
        stage.advance(4, note="half cached")
    shown = capsys.readouterr().err
    assert "encode" in shown
    assert "4/4 texts" in shown
    assert "/s" in shown
    assert "half cached" in shown


def test_a_short_stage_leaves_no_bar(capsys):
    with Bars().stage("encode", total=4, unit="texts") as stage:
        stage.advance(4)
    assert capsys.readouterr().err.strip() == ""


def test_a_private_step_shows_its_name_and_nothing_else(capsys):
    stream = io.StringIO()
    with Lines(stream).step("reading users"):
        assert stream.getvalue() == "reading users: started\n"
    assert stream.getvalue() == "reading users: started\nreading users: done\n"
    with Bars().step("reading users"), SILENT.step("reading users"):
        pass
    assert capsys.readouterr().err == stream.getvalue()
    with pytest.raises(ValueError, match="stop"), Lines(stream).step("encoding"):
        raise ValueError("stop")
    assert stream.getvalue().endswith("encoding: started\n")
