"""Say which tokens an encoder knows, as texts."""

from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache, WordLlamaEncoder, vocabulary_of
from canarybank.encode.protocol import plain_tokens


def test_the_light_encoder_lists_its_tokens_as_texts_also_behind_the_cache(tmp_path):
    encoder = WordLlamaEncoder()
    found = vocabulary_of(encoder)
    assert len(found) > 20_000
    assert list(found) == sorted(set(found))
    assert {"president", "the", "что"} <= set(found)
    assert all(text == text.strip() != "" for text in found)
    assert not {"<s>", "</s>", "<unk>", "<0x0A>"} & set(found)
    assert vocabulary_of(CachedEncoder(encoder, VectorCache(tmp_path))) == found


def test_an_encoder_that_says_nothing_has_none(tmp_path):
    assert vocabulary_of(HashingEncoder(8)) == ()
    assert vocabulary_of(CachedEncoder(HashingEncoder(8), VectorCache(tmp_path))) == ()


def test_marks_and_control_tokens_are_no_texts():
    tokens = ["\u2581the", "##ing", "[CLS]", "[unused_3]", "<pad>", "\u2581", "<>", "[]", "a<b>", "\u2581the"]
    assert plain_tokens(tokens, ("\u2581", "##")) == ("<>", "[]", "a<b>", "ing", "the")
