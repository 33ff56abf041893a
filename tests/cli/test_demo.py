import subprocess
import sys

from canarybank.attack import ATTACKS


def test_the_demo_runs_offline_and_ends_in_a_table_and_a_page(tmp_path):
    words = [sys.executable, "-m", "canarybank.cli", "demo", "--audit.trials", "2000"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert [line[0] for line in lines if line[0] in ATTACKS and len(line) == 8] == list(ATTACKS)
    assert "runs/demo/report.html" in done.stdout
    assert "512 a canary, wordllama cosine to their records 0.50 to 1.00" in " ".join(done.stdout.split())
    assert (tmp_path / "runs" / "demo" / "report.html").stat().st_size < 1_500_000
    again = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (again.returncode, again.stdout) == (0, done.stdout)
