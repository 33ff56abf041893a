"""Write public text: requests and generators, prompts, cleaning, banks, paraphrases, and the response cache."""

from canarybank.generate.bank import CandidateBank, bank_plan, make_bank
from canarybank.generate.budget import Spending, SpendingCeiling
from canarybank.generate.cache import CachedGenerator, ResponseCache
from canarybank.generate.cleaning import Cleaned, Cleaning, Rejection, Strip
from canarybank.generate.counters import outcome_text
from canarybank.generate.describe import BankStatistics, describe_bank
from canarybank.generate.distinct import Distinct, fold
from canarybank.generate.hf import HFGenerator
from canarybank.generate.hosted import HostedGenerator
from canarybank.generate.llamacpp import LlamaCppGenerator
from canarybank.generate.openai import OpenAIGenerator
from canarybank.generate.paraphrase import Paraphrases, make_paraphrases, paraphrase_plan, trigram_similarity
from canarybank.generate.prompts import Prompt, load_prompt, prompt_names
from canarybank.generate.protocol import Generator, Request, Response, in_order, server_of
from canarybank.generate.retry import Retry
from canarybank.generate.scripted import ScriptedGenerator
from canarybank.generate.secret import Secret
from canarybank.generate.server import Server
from canarybank.generate.stored import ResponseUsage, StoredResponses

__all__ = [
    "BankStatistics",
    "CachedGenerator",
    "CandidateBank",
    "Cleaned",
    "Cleaning",
    "Distinct",
    "Generator",
    "HFGenerator",
    "HostedGenerator",
    "LlamaCppGenerator",
    "OpenAIGenerator",
    "Paraphrases",
    "Prompt",
    "Rejection",
    "Request",
    "Response",
    "ResponseCache",
    "ResponseUsage",
    "Retry",
    "ScriptedGenerator",
    "Secret",
    "Server",
    "Spending",
    "SpendingCeiling",
    "StoredResponses",
    "Strip",
    "bank_plan",
    "describe_bank",
    "fold",
    "in_order",
    "load_prompt",
    "make_bank",
    "make_paraphrases",
    "outcome_text",
    "paraphrase_plan",
    "prompt_names",
    "server_of",
    "trigram_similarity",
]
