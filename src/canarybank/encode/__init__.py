"""Turn text into unit vectors: the Encoder protocol, its back ends, and the vector cache."""

from canarybank.encode.cache import ShelfUsage, VectorCache
from canarybank.encode.cached import CachedEncoder
from canarybank.encode.hashing import HashingEncoder
from canarybank.encode.load import ENCODERS, load_encoder
from canarybank.encode.models import find_model
from canarybank.encode.protocol import (
    Encoder,
    FastEncoder,
    Precision,
    is_cheap,
    is_isolated,
    unit_vectors,
    vocabulary_of,
)
from canarybank.encode.recipe import EncoderRecipe
from canarybank.encode.sentence import SentenceEncoder
from canarybank.encode.vectors import GivenVectors
from canarybank.encode.wordllama import WordLlamaEncoder

__all__ = [
    "ENCODERS",
    "CachedEncoder",
    "Encoder",
    "EncoderRecipe",
    "FastEncoder",
    "GivenVectors",
    "HashingEncoder",
    "Precision",
    "SentenceEncoder",
    "ShelfUsage",
    "VectorCache",
    "WordLlamaEncoder",
    "find_model",
    "is_cheap",
    "is_isolated",
    "load_encoder",
    "unit_vectors",
    "vocabulary_of",
]
