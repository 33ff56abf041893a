"""Configurations: the text of a file, the values of every key, and the words of the command line."""

import json

import pytest

from canarybank.config import fields

BLOCK = 20
FIELDS = fields()
KEYS = sorted(FIELDS)
WHOLE = (1, 2, 3, 5, 8, 12, 13, 24, 25, 1000, 10**6, 2**31, 2**63, 2**64)
REAL = (1e-300, 1e-12, 1e-9, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999999, 1.0, 1.5, 2.0, 10.0, 1e3, 1e6, 1e12, 1e300)
MOST = 1000
"""The largest number that is played, not only planned."""
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


def plausible(key, rng):
    """Return a value of the key's own kind, at times an extreme one."""
    kind = str(FIELDS[key].annotation)
    if "int" in kind:
        return str(rng.choice(WHOLE))
    if "float" in kind:
        return f"{rng.choice(REAL):.12g}"
    if "bool" in kind:
        return rng.choice(("true", "false"))
    return rng.choice(('"x"', '"text"', '["x"]', '"embedded"', '"none"', '"hashing"', "[]"))


@pytest.mark.parametrize("seeds", blocks(2, 50))
def test_texts_of_configurations(fuzz, mutated, seeds):
    def make(world, rng):
        lines = (world.folder / "own.toml").read_bytes().splitlines(keepends=True)
        at = rng.randrange(len(lines))
        match rng.randrange(4):
            case 0:
                lines[at] = rb"=".join([lines[at].partition(b"=")[0], rng.choice(TOMLS).encode() + b"\n"])
            case 1:
                lines.insert(rng.randrange(len(lines)), lines[at])
            case 2:
                del lines[at]
            case _:
                lines[at] = mutated(lines[at], rng, 1)
        path = world.write(rng.choice(("own.toml", "f\x1b[31m.toml", "\u202e.toml")), b"".join(lines))
        if rng.random() < 0.25:
            return ["audit", path, "--folder", "run", "--audit.trials", "50"]
        return ["config", "show", path, *rng.choice(([], ["--json"]))]

    fuzz("texts of configurations", make, seeds)


@pytest.mark.parametrize("seeds", blocks(2, 60))
def test_values_of_every_key(fuzz, seeds):
    def make(world, rng):
        key = KEYS[rng.randrange(len(KEYS))]
        section, _, name = key.partition(".")
        text = (world.folder / "own.toml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
        value = plausible(key, rng) if rng.random() < 0.6 else rng.choice(TOMLS)
        if rng.random() < 0.1:
            value = json.dumps(rng.choice(VALUES))
        at = lines.index(f"[{section}]") + 1 if f"[{section}]" in lines else len(lines)
        head = [] if f"[{section}]" in lines else [f"[{section}]"]
        lines[at:at] = [*head, f"{name} = {value}"]
        world.write("own.toml", "\n".join(lines).encode(errors="surrogatepass"))
        small = not value.replace(".", "").isdigit() or float(value) <= MOST
        played = ["audit", "own.toml", "--folder", "run"] if small else ["plan", "own.toml"]
        return rng.choice((["plan", "own.toml"], ["config", "show", "own.toml"], played, played))

    fuzz("values of keys", make, seeds)


@pytest.mark.parametrize("seeds", blocks(2, 50))
def test_words_of_the_command_line(fuzz, seeds):
    def make(_world, rng):
        command = rng.choice(QUICK).split()
        words = [*command, *(["own.toml"] if rng.random() < 0.6 or command == ["plan"] else [])]
        for _ in range(rng.randrange(4)):
            flag = (
                f"--{rng.choice(KEYS)}" if rng.random() < 0.6 else rng.choice(("--sigma", "--q", "--k", "--json", "-x"))
            )
            words += [flag, rng.choice(VALUES)]
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), rng.choice(VALUES))
        return words

    fuzz("words of the command line", make, seeds)


@pytest.mark.parametrize("seeds", blocks(1, 10))
def test_numbers_of_a_mechanism(fuzz, seeds):
    def make(_world, rng):
        flags = {
            "--mechanism.sigma": rng.choice((1e-12, 1e-3, 0.02, 0.1, 0.29, 0.3, 0.5, 1.0, 3.0, 50.0, 1e3, 1e12)),
            "--mechanism.q": rng.choice((1e-12, 1e-9, 1e-3, 0.1, 0.5, 0.999, 1.0)),
            "--mechanism.delta": rng.choice((0, 1e-300, 1e-12, 1e-5, 0.4, 0.999)),
            "--rounds": rng.choice((1, 1, 2, 6, 100)),
        }
        return ["epsilon", *(word for flag in flags.items() for word in flag), *rng.choice(([], ["--json"]))]

    fuzz("numbers of a mechanism", make, seeds)
