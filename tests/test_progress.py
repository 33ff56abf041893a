import io

from canarybank.progress import SILENT, Bars, Lines, for_stream


def test_lines_say_start_progress_and_end():
    stream = io.StringIO()
    with Lines(stream, every=0).stage("trials", total=10, unit="trials") as stage:
        stage.advance(5, note="3 false positives")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "trials: started"
    assert lines[1].startswith("trials: 5 of 10 trials, ")
    assert lines[1].endswith("; 3 false positives")
    assert lines[-1].startswith("trials: done in ")


def test_silence_says_nothing(capsys):
    with SILENT.stage("x", total=2) as stage:
        stage.advance(2)
    assert capsys.readouterr() == ("", "")


def test_a_stream_that_is_no_terminal_gets_lines_and_quiet_gets_silence():
    assert isinstance(for_stream(io.StringIO()), Lines)
    assert for_stream(io.StringIO(), quiet=True) is SILENT


def test_bars_advance_without_a_terminal(capsys):
    with Bars().stage("encode", total=4, unit="texts") as stage:
        stage.advance(4, note="half cached")
    assert "encode" in capsys.readouterr().err
