import numpy as np
import pytest

from canarybank.attack import ATTACKS, Canary
from canarybank.encode import HashingEncoder
from canarybank.errors import InputError, MissingError
from canarybank.experiment.config import AttackConfig
from canarybank.experiment.pools import Pools, cosines
from canarybank.experiment.stage_cache import StageCache
from canarybank.generate import ScriptedGenerator

ENCODER = HashingEncoder()
RECORDS = ("i like warm soup", "rain again today")


@pytest.fixture
def canary():
    return Canary(vectors=ENCODER.encode(RECORDS), texts=RECORDS, id="ann")


@pytest.fixture
def generator():
    return ScriptedGenerator(
        lambda r: f"well {r.seed % 997} i like warm soup and rain again today {r.seed}", name="para"
    )


def pools(generator, tmp_path, **choices):
    return Pools.of(AttackConfig(probes=2, pool=4, **choices), ENCODER, generator, StageCache(tmp_path))


def test_each_attack_gets_its_kind_of_pool(canary, generator, tmp_path):
    made = pools(generator, tmp_path)
    assert made.make(ATTACKS["ordinary"], canary, 4, 0) is None
    assert made.make(ATTACKS["exact"], canary, 4, 0).texts == RECORDS
    assert {len(text) for text in made.make(ATTACKS["nonce"], canary, 4, 0).texts} == {32}
    paraphrases = made.make(ATTACKS["paraphrase-norm"], canary, 4, 0)
    assert sorted(paraphrases.sources) == [0, 0, 1, 1]
    assert np.array_equal(paraphrases.vectors, ENCODER.encode(paraphrases.texts))


def test_paraphrases_are_made_once_for_all_that_they_depend_on(canary, generator, tmp_path):
    first = pools(generator, tmp_path).paraphrases(canary, 4, 0)
    asked = len(generator.asked)
    assert pools(generator, tmp_path).paraphrases(canary, 4, 0).texts == first.texts
    assert len(generator.asked) == asked
    assert pools(generator, tmp_path).paraphrases(canary, 4, 1).texts != first.texts
    assert len(generator.asked) > asked


def test_drifting_paraphrases_are_rejected_by_the_runs_encoder(canary, tmp_path):
    strange = ScriptedGenerator(lambda r: f"zzz qqq {r.seed} xxx", name="strange")
    with pytest.raises(Exception, match="dissimilar"):
        pools(strange, tmp_path, similarity=0.9).paraphrases(canary, 4, 0)


def test_cosines_are_of_unit_vectors():
    assert cosines(ENCODER.encode)(["a b"], ["a b"])[0] == pytest.approx(1.0)


def test_without_generator_only_the_embedded_canaries_have_paraphrases(canary, tmp_path):
    with pytest.raises(MissingError):
        pools(None, tmp_path).paraphrases(canary, 4, 0)


def test_a_canary_without_texts_cannot_be_paraphrased(generator, tmp_path):
    bare = Canary(vectors=ENCODER.encode(RECORDS), id="bare")
    with pytest.raises(InputError, match="has no texts"):
        pools(generator, tmp_path).paraphrases(bare, 4, 0)
