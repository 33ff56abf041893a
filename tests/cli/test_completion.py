import shutil
import subprocess

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(cli, shell):
    outcome = cli("completion", shell)
    assert outcome.code == 0
    assert "canarybank" in outcome.out
    assert "--mechanism.sigma" in outcome.out or "mechanism.sigma" in outcome.out


def test_the_bash_script_is_bash(cli):
    script = cli("completion", "bash").out
    bash = shutil.which("bash")
    assert bash is not None
    assert subprocess.run([bash, "-n"], input=script, text=True, capture_output=True, check=False).returncode == 0


def test_it_can_be_installed(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    document = cli("completion", "bash", "--install", "--json").document
    assert document["path"].startswith(str(tmp_path))


def test_an_unknown_shell_must_be_named(cli, monkeypatch):
    from cyclopts import completion

    def unknown():
        raise completion.ShellDetectionError

    monkeypatch.setattr(completion, "detect_shell", unknown)
    outcome = cli("completion")
    assert outcome.code == 2
    assert "name it" in outcome.err
