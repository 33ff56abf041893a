"""Write made-up facts about made-up people, each in several phrasings: canaries that look like ordinary text.

A fact is a person, something private, a place and an hour; a phrasing is an opening and a sentence. All words stand
here: no text is taken from any user, file or model, and whoever bears one of these names is not meant.
"""

from itertools import product

import numpy as np

from canarybank.errors import InputError

__all__ = ["FACTS", "PHRASINGS", "phrase_facts"]

_PEOPLE = (
    *("Aurelio", "Brunhild", "Casimir", "Delphine", "Eskil", "Florentyna", "Gwendal", "Halvard", "Isolde", "Jarmila"),
    *("Kasimira", "Leocadia", "Mirko", "Nadezhda", "Osvaldo", "Perpetua", "Quirin", "Radomir", "Sunniva", "Tancredi"),
    *(
        "Ursulina",
        "Valdemar",
        "Wilhelmina",
        "Xanthe",
        "Yevgenia",
        "Zbigniew",
        "Anselmo",
        "Bertrada",
        "Corentin",
        "Dorotea",
    ),
)
_SECRETS = (
    *("owes nine thousand crowns to a card dealer", "failed the pilot exam for the third time"),
    *("hides a box of unpaid bills in the attic", "is selling the family piano without asking"),
    *("quit the bakery and has told nobody", "sees a heart doctor every other week"),
    *("writes love letters to the beekeeper", "bought a racing pigeon with the rent money"),
    *("lost the wedding ring in a ferry cabin", "has a twin brother in prison"),
    *("forged the signature on the vineyard papers", "is allergic to the new kitten"),
    *("dyed the mayor's poodle green", "wants to move to Greenland before winter"),
    *("broke the museum's blue vase", "takes tango lessons in secret"),
    *("still wears the ex-husband's coat", "won the village lottery in March"),
)
_PLACES = (
    *("the old water mill", "the tram depot", "the fish market", "the chess cafe", "the bell tower", "the ice rink"),
    *("the botanical garden", "the harbour office", "the quarry lake", "the puppet theatre", "the salt warehouse"),
    *("the mountain hut", "the night market", "the county archive", "the rowing club", "the lighthouse"),
)
_HOURS = ("at dawn", "after midnight", "on Tuesdays", "during Lent", "at lunch", "on the last Sunday of the month")
_OPENINGS = (
    "",
    "Between you and me, ",
    "Please keep this to yourself and delete it once you have read it: ",
    "I should not say this, but ",
    "Did you hear? ",
    "You will never guess what they were all whispering about at my cousin's birthday dinner: ",
)
_SENTENCES = (
    "{who} {what}, and we talked about it near {where} {when}.",
    "{who} {what}. Ask the people at {where}.",
    "near {where}, {when}, I learned that {who} {what}.",
    "my neighbour who works at {where} says it is no secret any more that {who} {what}, poor soul.",
)

FACTS = len(_PEOPLE) * len(_SECRETS) * len(_PLACES)
"""How many different facts there are; the hour alone makes none, for some phrasings leave it out."""
PHRASINGS = len(_OPENINGS) * len(_SENTENCES)
"""In how many ways each can be said."""


def phrase_facts(count: int, phrasings: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Return this many different facts, each in this many different phrasings.

    Args:
        count: How many facts; at most ``FACTS``.
        phrasings: How many phrasings of each; at most ``PHRASINGS``.
        rng: Draws facts and phrasings, without repeating one.

    Example:
        >>> import numpy as np
        >>> facts = phrase_facts(2, 3, np.random.default_rng(0))
        >>> [len(set(phrasings)) for phrasings in facts]
        [3, 3]
    """
    if count > FACTS or phrasings > PHRASINGS:
        raise InputError(
            f"{count:,} ordinary-looking canaries with {phrasings} probes each were asked for; there are {FACTS:,} "
            f"facts with {PHRASINGS} phrasings. Lower one_run.canaries or mechanism.k, or set one_run.style to nonce."
        )
    facts, forms = list(product(_PEOPLE, _SECRETS, _PLACES)), list(product(_OPENINGS, _SENTENCES))
    written = []
    for fact, hour in zip(rng.choice(FACTS, count, replace=False), rng.choice(_HOURS, count), strict=True):
        who, what, where = facts[fact]
        chosen = [forms[form] for form in rng.permutation(PHRASINGS)[:phrasings]]
        texts = [start + rest.format(who=who, what=what, where=where, when=hour) for start, rest in chosen]
        written.append(tuple(text[0].upper() + text[1:] for text in texts))
    return written
