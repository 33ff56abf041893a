"""Build the wheel, install it into an empty environment, and run it there; `make test-wheel` does so.

The source distribution and the wheel are built as an index gets them, and their pages are rendered. Then the commands
of the Dockerfile are run one by one, each path of the image below a folder of its own: what a container would hold is
what is tested, as far as a machine without Docker can tell. Packages come from pip, so this needs a network.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGE_PATHS = ("/source", "/wheels", "/cache", "/work", "/tmp")  # noqa: S108, those of the image


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None, code: int = 0) -> str:
    """Run a command, hold it to its exit code, and return what it printed."""
    print("$", shlex.join(map(str, words)), flush=True)
    done = subprocess.run(  # noqa: S603, our own commands
        [str(word) for word in words], cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != code:
        sys.exit(f"It exited with {done.returncode}, not {code}:\n{done.stdout}")
    return done.stdout


def check(condition: object, what: str) -> None:
    """End with a sentence unless a condition holds."""
    if not condition:
        sys.exit(f"Not so: {what}.")
    print(f"  {what}", flush=True)


def check_distributions(folder: Path) -> None:
    """Build both distributions, and look at what an index would show of them."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_string(archive.read(next(n for n in names if n.endswith("/METADATA"))).decode())
    page = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", page)
    relative = [one or other for one, other in links if not re.match(r"[a-z]+:|#", one or other)]
    check(links and not relative, f"all {len(links)} links of the README lead somewhere from an index {relative}")
    check(len(metadata.get_all("Project-URL", [])) >= 4, "the project's addresses are there")
    check("canarybank/py.typed" in names and "canarybank/flow/data/bank.jsonl.gz" in names, "types and data come along")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    check(
        {"CITATION.cff", "Dockerfile", "tests/conftest.py", "Makefile"} <= held, "the sources hold tests and citation"
    )


def docker_lines() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its arguments."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def as_in_the_image(folder: Path) -> tuple[list[str], dict[str, str], Path]:
    """Do what the Dockerfile says below a folder, and return its entry point, its environment and its work folder."""
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    env = {"PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder / "tmp")}
    env |= {key: value for key, value in os.environ.items() if key.startswith("PIP_") or key.endswith("CERT")}
    inside = re.compile(rf"(?<![\w.-])({'|'.join(IMAGE_PATHS)})(?=[\s/]|$)")
    (folder / "tmp").mkdir()
    cwd, entry = folder, []
    for word, rest in docker_lines():
        mapped = inside.sub(lambda found: f"{folder}{found[1]}", rest)
        if word == "WORKDIR":
            cwd = Path(mapped)
            cwd.mkdir(parents=True, exist_ok=True)
        elif word == "COPY" and "--from" not in rest:
            *sources, target = mapped.split()
            place = cwd / target
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place)
                else:
                    to = place / source if target.endswith("/") else place
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, to)
        elif word == "RUN":
            run("sh", "-ec", mapped, cwd=cwd, env=env)
        elif word == "ENV":
            env |= dict(pair.split("=", 1) for pair in shlex.split(mapped))
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
    return entry, env, cwd


def check_installed(folder: Path) -> None:
    """Run what is installed: the demo, its gate, a users' file, and the plug-in of pytest."""
    entry, env, work = as_in_the_image(folder)
    program = str(folder / "venv" / "bin" / entry[0])
    check(not (folder / "source" / ".git").exists(), "the image holds no history")
    installed = run("python", "-m", "pip", "list", "--format", "freeze", cwd=work, env=env)
    check("torch" not in installed and "canarybank==" in installed, "the install is the light one")
    run(program, "demo", "--audit.trials", "1000", "--folder", "runs/demo", "--quiet", cwd=work, env=env)
    check((work / "runs" / "demo" / "report.html").is_file(), "the demo leaves a page")
    run(program, "gate", "runs/demo", "--claimed-eps", "1.695", cwd=work, env=env)
    run(program, "gate", "runs/demo", "--claimed-eps", "0.1", cwd=work, env=env, code=1)
    rows = [
        f"person{user},we talked about the weather for {minute} minutes" for user in range(40) for minute in range(8)
    ]
    (work / "my-users.csv").write_text("\n".join(["author,message", *rows]), encoding="utf-8")
    run(program, "audit", "my-users.csv", "--audit.trials", "500", "--quiet", cwd=work, env=env)
    check((work / "runs" / "my-users" / "report.html").is_file(), "a users' file is audited without a configuration")
    run("python", "-m", "pip", "install", "--quiet", "pytest", cwd=work, env=env)
    fixtures = run("python", "-m", "pytest", "--fixtures", "-q", cwd=work, env=env)
    check("canarybank -- " in fixtures, "pytest finds the fixture canarybank")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for name, step in (("dist", check_distributions), ("image", check_installed)):
            (Path(made) / name).mkdir()
            step(Path(made) / name)
    print("The wheel stands.")
