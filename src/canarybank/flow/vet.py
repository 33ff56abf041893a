"""Vet a bank as a client or a reviewer does before voting: from its texts, and public text where there is some."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from canarybank.config.model import EncoderConfig
from canarybank.defend import BankVerdict, Measure, PublicText, Vetting
from canarybank.defend.perplexity import measure_likelihoods
from canarybank.defend.vetting import JUDGED_K
from canarybank.flow.bank import read_texts
from canarybank.flow.inputs import cached_encoder
from canarybank.flow.published import read_published
from canarybank.progress import SILENT, Progress
from canarybank.store import hash_json

__all__ = ["JUDGED_ENCODER", "SHOWN", "VettedBank", "vet_bank"]

JUDGED_ENCODER = "wordllama"
"""The encoder with which the thresholds were set and judged."""
SHOWN = 20
"""How many of the worst entries are shown."""


@dataclass(frozen=True, eq=False)
class VettedBank:
    """A bank, the verdict on it, and what the verdict was made from."""

    name: str
    texts: tuple[str, ...]
    verdict: BankVerdict
    vetting: Vetting
    encoder: str
    public: str | None = None
    model: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """Return the hash of the texts in their order."""
        return hash_json(list(self.texts))

    def entry(self, position: int) -> dict[str, Any]:
        """Return what is known of one entry."""
        standard = self.verdict.standard
        return {
            "position": position,
            "text": self.texts[position],
            "score": float(self.verdict.scores[position]),
            "flagged": position in self.verdict.flagged,
            "worst_measure": str(self.worst_measure(position)),
            "measures": {str(measure): float(standard[measure][position]) for measure in standard},
        }

    def worst_measure(self, position: int) -> Measure:
        """Return the measure by which an entry stands out most, of those that decide."""
        verdict = self.verdict
        deciding = [finding.measure for finding in verdict.findings]
        return max(deciding, key=lambda each: verdict.standard[each][position] / self._single(each))

    def _single(self, measure: Measure) -> float:
        return self.vetting.thresholds(measure, self.verdict.size)[1]

    def measures(self) -> list[dict[str, Any]]:
        """Return what each measure says of the bank; one that does not decide has no threshold."""
        findings = {finding.measure: finding for finding in self.verdict.findings}
        return [
            {
                "measure": str(measure),
                "means": measure.description,
                "largest": float(standard.max()),
                "threshold": self._single(measure) if measure in findings else None,
                "levels": list(findings[measure].levels) if measure in findings else [],
                "shares": list(findings[measure].shares) if measure in findings else [],
                "entries": len(findings[measure].entries) if measure in findings else 0,
            }
            for measure, standard in self.verdict.standard.items()
        ]

    def document(self, shown: int = SHOWN) -> dict[str, Any]:
        """Return the verdict as plain values, with every flagged entry and the ``shown`` worst ones."""
        verdict = self.verdict
        alarms = verdict.false_alarms
        return {
            "bank": self.name,
            "hash": self.hash,
            "entries": verdict.size,
            "shaped": verdict.is_shaped,
            "statement": verdict.statement,
            "false_alarms": alarms
            and {"banks": alarms.banks, "alarms": alarms.alarms, "upper": alarms.upper, "confidence": 0.95},
            "measures": self.measures(),
            "flagged": [self.entry(position) for position in verdict.flagged],
            "worst": [self.entry(position) for position in verdict.worst(shown)],
            "encoder": self.encoder,
            "public": self.public,
            "model": self.model,
            "notes": list(self.notes),
        }


def vet_bank(
    bank: str,
    *,
    public: Path | None = None,
    model: str | None = None,
    encoder: str = JUDGED_ENCODER,
    round_number: int | None = None,
    k: int | None = None,
    progress: Progress = SILENT,
) -> VettedBank:
    r"""Vet a bank: a file of texts, the folder of an evolution, or the word embedded.

    Args:
        bank: Which bank.
        public: A file of public texts of the kind that users write.
        model: A language model that says how likely each entry is; left out, none is asked.
        encoder: The encoder, by name.
        round_number: Of an evolution's folder: the round whose bank is vetted, from 1; left out, the first.
        k: How many entries a record votes for; left out, as many as in the evolution, and 5 for any other bank.
        progress: Is told of what is done.

    Example:
        >>> texts = [*Path("bank.txt").read_text().splitlines(), *(f"x{n * n}q{n:x}" for n in range(1000, 1008))]
        >>> _ = Path("shaped.txt").write_text("\n".join(texts))
        >>> found = vet_bank("shaped.txt", encoder="hashing")
        >>> found.verdict.is_shaped, sorted(found.verdict.flagged)
        (True, [60, 61, 62, 63, 64, 65, 66, 67])
    """
    published = read_published(bank, round_number)
    texts, notes = published.texts, published.notes
    encode = cached_encoder(EncoderConfig(name=encoder), progress).encode
    shown = None
    if public is not None:
        known = read_texts(public)
        shown = PublicText(known, encode(known))
    likelihoods = None if model is None else measure_likelihoods(texts, model, progress=progress)
    vetting, votes = Vetting.load(), k or published.k or JUDGED_K
    verdict = vetting.vet(texts, encode(texts), public=shown, likelihoods=likelihoods, k=votes)
    if encoder != JUDGED_ENCODER:
        verdict = replace(verdict, false_alarms=None)
    if verdict.false_alarms is None:
        judged = f"the encoder {JUDGED_ENCODER} and k = {JUDGED_K}"
        unknown = f"with {encoder} and k = {votes} the false-alarm rate is not known."
        notes += (f"The thresholds were set and judged with {judged}; {unknown}",)
    if len(set(texts)) < len(texts):
        notes += ("The honest banks on which the check was judged hold no text twice.",)
    return VettedBank(bank, texts, verdict, vetting, encoder, None if public is None else str(public), model, notes)
