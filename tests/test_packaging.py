"""What an index, a container and a citation show of the package; `make test-wheel` builds and runs it."""

import importlib.util
import re
import tomllib
from pathlib import Path

import yaml

import canarybank

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEPENDENCIES = [re.split(r"[<>=\[]", each)[0] for each in PROJECT["project"]["dependencies"]]


def tool(name):
    """Import a script of ``tools``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_an_index(text):
    """Return a page as the substitutions of pyproject.toml make it."""
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    return text


def links_of(text):
    return [a or b for a, b in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text)]


def test_every_link_of_the_readme_works_from_an_index():
    page = (ROOT / "README.md").read_text()
    home = PROJECT["project"]["urls"]["Homepage"]
    raw = home.replace("github.com", "raw.githubusercontent.com")
    before, after = links_of(page), links_of(on_an_index(page))
    assert len(before) == len(after) > 5
    for relative, absolute in zip(before, after, strict=True):
        kept = re.match(r"[a-z]+:|#", relative)
        assert absolute == relative if kept else absolute in {f"{home}/blob/main/{relative}", f"{raw}/main/{relative}"}
        assert kept or (ROOT / relative.partition("#")[0]).exists()


def test_pictures_come_raw_and_what_is_absolute_stays():
    assert on_an_index("![a](docs/a.png)").startswith("![a](https://raw.githubusercontent.com/")
    assert on_an_index('<img src="docs/a.png">').startswith('<img src="https://raw.githubusercontent.com/')
    for text in ("[a](https://x.org/a)", "[a](#here)", '<a href="https://x.org">', "f(x)[1](y z)"):
        assert on_an_index(text) == text


def test_pythons_are_the_same_everywhere():
    classifiers = PROJECT["project"]["classifiers"]
    named = [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)]
    assert tuple(named) == tool("check_versions").PYTHONS
    first, last = named[0], named[-1].partition(".")[2]
    assert PROJECT["project"]["requires-python"] == f">={first},<3.{int(last) + 1}"


def test_every_dependency_has_a_lowest_version_to_test_with():
    lowest = tool("lowest_constraints")
    assert [each.partition("==")[0] for each in lowest.constraints([])] == sorted(DEPENDENCIES)
    assert lowest.lowest("torch") is None
    assert lowest.lowest("a[b]>=1.2.3.post1,<2") == "a==1.2.3.post1"


def test_the_citation_names_the_paper_and_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == canarybank.__version__ == PROJECT["project"]["version"]
    assert cited["license"] == PROJECT["project"]["license"]
    assert cited["preferred-citation"]["title"].startswith("Canaries in the Bank")
    assert len(cited["preferred-citation"]["authors"]) == 3


def test_the_image_copies_what_is_there_and_the_context_lets_it_through():
    lines = tool("check_wheel").docker_lines()
    copied = [path for word, rest in lines if word == "COPY" and "--from" not in rest for path in rest.split()[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert let_through[0] == "*"
    assert {f"!{path}" for path in copied} == {line for line in let_through if line.startswith("!")}
    assert ("ENTRYPOINT", '["canarybank"]') in lines
    assert "torch" not in " ".join(rest for _, rest in lines)


def test_every_folder_that_the_version_tests_name_is_there():
    assert [path for path in tool("check_versions").TESTS if not (ROOT / path).exists()] == []
