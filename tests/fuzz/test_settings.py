"""Configurations: the text of a file, the values of every key, and the words of the command line."""

import json

import pytest

from canarybank.experiment import fields

BLOCK = 20
KEYS = sorted(fields())
QUICK = ("epsilon", "ceiling", "config show", "runs list", "verify", "gate", "report", "bank show", "cache", "plan")
VALUES = (
    "",
    "0",
    "-1",
    "1",
    "2",
    "1e-300",
    "1e300",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "9" * 400,
    "true",
    "[]",
    "{}",
    "null",
    "none",
    "x" * 3000,
    "\0",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "/dev/zero",
    "/dev/null",
    ".",
    "/",
    "~",
    "a,b,,c",
    "0x10",
    "1_000",
    "١",
    "0.5",
    "1e3",
    "%s",
)
TOMLS = (
    "0",
    "-1",
    "1",
    "3",
    "0.5",
    "1e-300",
    "1e300",
    "inf",
    "nan",
    "true",
    '""',
    '"x"',
    '"\\u0000"',
    '"\\u001b[31m"',
    '"/dev/zero"',
    "[]",
    '["a", 1]',
    "{}",
    "{ a = 1 }",
    "1979-05-27",
    str(2**80),
)


def blocks(few, many):
    """Return the seeds of the cases of one run, and of the long run."""
    cut = [range(start * BLOCK, (start + 1) * BLOCK) for start in range(many)]
    return [
        pytest.param(block, id=f"{block.start}", marks=[pytest.mark.slow] if place >= few else [])
        for place, block in enumerate(cut)
    ]


@pytest.mark.parametrize("seeds", blocks(4, 50))
def test_texts_of_configurations(fuzz, mutated, seeds):
    def make(world, rng):
        text = (world.folder / "own.toml").read_bytes()
        path = world.write(rng.choice(("own.toml", "f\x1b[31m.toml", "\u202e.toml")), mutated(text, rng))
        if rng.random() < 0.25:
            return ["audit", path, "--folder", "run", "--audit.trials", "50"]
        return ["config", "show", path, *rng.choice(([], ["--json"]))]

    fuzz("texts of configurations", make, seeds)


@pytest.mark.parametrize("seeds", blocks(4, 60))
def test_values_of_every_key(fuzz, seeds):
    def make(world, rng):
        key = KEYS[rng.randrange(len(KEYS))]
        section, _, name = key.partition(".")
        text = (world.folder / "own.toml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
        value = rng.choice(TOMLS) if rng.random() < 0.7 else json.dumps(rng.choice(VALUES[:-9]))
        at = lines.index(f"[{section}]") + 1 if f"[{section}]" in lines else len(lines)
        head = [] if f"[{section}]" in lines else [f"[{section}]"]
        lines[at:at] = [*head, f"{name} = {value}"]
        world.write("own.toml", "\n".join(lines).encode(errors="surrogatepass"))
        return rng.choice(
            (["plan", "own.toml"], ["config", "show", "own.toml"], ["audit", "own.toml", "--folder", "run"])
        )

    fuzz("values of keys", make, seeds)


@pytest.mark.parametrize("seeds", blocks(4, 50))
def test_words_of_the_command_line(fuzz, seeds):
    def make(_world, rng):
        command = rng.choice(QUICK).split()
        words = [*command, *(["own.toml"] if rng.random() < 0.6 else [])]
        for _ in range(rng.randrange(4)):
            flag = (
                f"--{rng.choice(KEYS)}" if rng.random() < 0.6 else rng.choice(("--sigma", "--q", "--k", "--json", "-x"))
            )
            words += [flag, rng.choice(VALUES)]
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), rng.choice(VALUES))
        return words

    fuzz("words of the command line", make, seeds)
