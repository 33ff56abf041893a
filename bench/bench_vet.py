"""Time the vetting of a bank, beyond encoding, against the promised 5,000 entries a second.

Entries are short chat messages. The baseline is the time that the promise allows, so the ratio says how many times as
fast the machine is.
"""

import time

from bench_encode import chat_messages
from canarybank.defend import PublicText, Vetting
from canarybank.encode import load_encoder
from harness import Result, ratio

PROMISED = 5_000
SIZES = (2_048, 8_192)
REPEATS = 7


def run() -> list[Result]:
    """Vet banks of two sizes without public text, and one with it."""
    check, encoder = Vetting.load(), load_encoder("wordllama")
    texts = chat_messages(max(SIZES) + 1_024)
    vectors = encoder.encode(texts)
    public = PublicText(tuple(texts[-1_024:]), vectors[-1_024:])
    made = []
    for size, known in ((SIZES[0], None), (SIZES[1], None), (SIZES[0], public)):
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            check.vet(texts[:size], vectors[:size], public=known)
            times.append(time.perf_counter() - began)
        name = "vet a bank, with public text" if known else "vet a bank"
        note = f"{size / min(times):,.0f} entries a second; the baseline is the promised {PROMISED:,}"
        made.append(ratio(name, f"{size:,} entries", size / PROMISED, min(times), 1, note))
    return made
