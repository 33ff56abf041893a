"""Read the reply of a server that speaks the OpenAI protocol, believing nothing of it."""

import json
from collections.abc import Mapping
from typing import Any

from canarybank.generate.budget import charged
from canarybank.generate.protocol import Request, Response

__all__ = ["UNREADABLE", "read_reply"]

UNREADABLE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
_MOST_TOKENS = 10**9


def read_reply(body: bytes, request: Request, *, prefill: bool) -> Response:
    """Return the response in a reply's body, or raise one of ``UNREADABLE``.

    Of servers that continue an answer, some repeat its opening and some do not; the response always begins with it.
    """
    reply = json.loads(body)
    choice = reply["choices"][0]
    text = choice["message"]["content"]
    if not isinstance(text, str):
        raise TypeError("a choice without a text")
    opening = request.opening if prefill else ""
    repeated = text.lstrip().startswith(opening.strip())
    written = text.lstrip().removeprefix(opening.strip()) if repeated else text
    usage = reply.get("usage") or {}
    prompt, completion = charged(
        request, written, _reported(usage, "prompt_tokens"), _reported(usage, "completion_tokens")
    )
    return Response(
        text=text if repeated else opening + text,
        prompt_tokens=prompt,
        completion_tokens=completion,
        finished=choice.get("finish_reason") != "length",
    )


def _reported(usage: Mapping[str, Any], name: str) -> int | None:
    count = usage.get(name)
    if count is None:
        return None
    if type(count) is not int or abs(count) > _MOST_TOKENS:
        raise TypeError(f"{name} that are no number of tokens")
    return count
