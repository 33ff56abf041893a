"""Show the examples of docstrings as code on the pages of the API: an extension of griffe that zensical.toml names."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring whose examples stand between fences: from each prompt to the next blank line."""
    return _EXAMPLE.sub(lambda found: "{0}```pycon\n{1}\n{0}```".format(found["indent"], found[0]), text)


class FencedExamples(griffe.Extension):
    """Fence the examples of every docstring; without that a prompt would be three quotations within each other."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Rewrite the docstrings of a whole package, once it is read."""
        del kwargs
        waiting: list[griffe.Object] = [pkg]
        while waiting:
            each = waiting.pop()
            if each.docstring is not None:
                each.docstring.value = fenced(each.docstring.value)
            waiting += [member for member in each.members.values() if isinstance(member, griffe.Object)]
