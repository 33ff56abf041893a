import numpy as np
import pytest

from canarybank.attack import ATTACKS, Canary
from canarybank.config import AttackConfig, CohortsConfig, Config, EncoderConfig
from canarybank.encode import HashingEncoder
from canarybank.errors import ConfigError, InputError, MissingError
from canarybank.flow import gather
from canarybank.generate import CachedGenerator, OpenAIGenerator, ResponseCache, ScriptedGenerator, load_prompt
from canarybank.store import StageCache, stage_key

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
    """Return the pools of an audit that has this generator, by attack, canary and the seed of cohorts."""

    def pool(attack, canary, *, seed):
        config = Config(
            encoder=EncoderConfig(name="hashing"),
            attack=AttackConfig(names=("nonce",), probes=6, pool=6, **choices),
            cohorts=CohortsConfig(seed=seed),
        )
        return gather(config, StageCache(tmp_path), generator).pool(attack, canary)

    return pool


def test_each_attack_gets_its_kind_of_pool(canary, generator, tmp_path):
    made = pools(generator, tmp_path)
    assert made(ATTACKS["ordinary"], canary, seed=0) is None
    assert made(ATTACKS["exact"], canary, seed=0).texts == RECORDS
    assert {len(text) for text in made(ATTACKS["nonce"], canary, seed=0).texts} == {32}
    paraphrases = made(ATTACKS["paraphrase-norm"], canary, seed=0)
    assert sorted(paraphrases.sources) == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(paraphrases.vectors, ENCODER.encode(paraphrases.texts))


def test_paraphrases_are_made_once_for_all_that_they_depend_on(canary, generator, tmp_path):
    first = pools(generator, tmp_path)(ATTACKS["paraphrase"], canary, seed=0)
    asked = len(generator.asked)
    assert pools(generator, tmp_path)(ATTACKS["paraphrase"], canary, seed=0).texts == first.texts
    assert len(generator.asked) == asked
    assert pools(generator, tmp_path)(ATTACKS["paraphrase"], canary, seed=1).texts != first.texts
    assert len(generator.asked) > asked


def test_similarities_and_counters_are_kept_with_the_pool(canary, tmp_path):
    wrapping = ScriptedGenerator(lambda r: f'1. i like warm soup, rain again today {r.seed}"', name="wraps")
    first = pools(wrapping, tmp_path)(ATTACKS["paraphrase"], canary, seed=0)
    naive = [
        float(ENCODER.encode([RECORDS[source]])[0] @ ENCODER.encode([text])[0])
        for source, text in zip(first.sources, first.texts, strict=True)
    ]
    assert first.similarities == pytest.approx(naive, abs=1e-6)
    assert first.measure == f"{ENCODER.name} cosine"
    assert first.counters["kept"] == first.counters["stripped-numbering"] == 6
    assert first.counters["asked"] == len(wrapping.asked)
    found = pools(wrapping, tmp_path)(ATTACKS["paraphrase"], canary, seed=0)
    assert (found.similarities, found.counters) == (first.similarities, first.counters)
    assert first.counters["asked"] == len(wrapping.asked)


def test_beside_an_older_stage_a_pool_is_made_again_from_answers_that_are_kept(canary, generator, tmp_path):
    asking = CachedGenerator(generator, ResponseCache(tmp_path / "answers.log"))
    first = pools(asking, tmp_path / "one")(ATTACKS["paraphrase"], canary, seed=0)
    asked = len(generator.asked)
    inputs = {"records": RECORDS, "size": 6, "seed": 0, "similarity": AttackConfig().similarity, "tries": 8.0}
    made_by = {
        "generator": asking.fingerprint,
        "encoder": ENCODER.fingerprint,
        "prompt": load_prompt("paraphrase").hash,
    }
    older = stage_key("paraphrases", **inputs, **made_by)
    StageCache(tmp_path / "two").document("paraphrases", older, lambda: {"texts": ["old"], "sources": [0]})
    again = pools(asking, tmp_path / "two")(ATTACKS["paraphrase"], canary, seed=0)
    assert len(generator.asked) == asked
    assert (again.texts, again.similarities, again.counters) == (first.texts, first.similarities, first.counters)


def test_drifting_paraphrases_are_rejected_by_the_runs_encoder(canary, tmp_path):
    strange = ScriptedGenerator(lambda r: f"zzz qqq {r.seed} xxx", name="strange")
    with pytest.raises(Exception, match="dissimilar"):
        pools(strange, tmp_path, similarity=0.9)(ATTACKS["paraphrase"], canary, seed=0)


class Unnamed(ScriptedGenerator):
    """A generator of somebody else's that sends requests somewhere and does not say where."""

    @property
    def server(self):
        raise AttributeError


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    "remote", [OpenAIGenerator("m", "http://far.example/v1"), Unnamed(lambda r: f"i like warm soup {r.seed}")]
)
def test_records_go_to_no_server_without_permission_whoever_asks(canary, tmp_path, remote, cached):
    asked = CachedGenerator(remote, ResponseCache()) if cached else remote
    made = pools(asked, tmp_path)
    assert made(ATTACKS["nonce"], canary, seed=0) is not None
    with pytest.raises(ConfigError, match=r"send users' records to .*Set attack\.send_records to true"):
        made(ATTACKS["paraphrase"], canary, seed=0)


def test_records_go_to_a_server_with_permission(canary, tmp_path):
    allowed = pools(Unnamed(lambda r: f"i like warm soup and rain {r.seed}"), tmp_path, send_records=True)
    assert len(allowed(ATTACKS["paraphrase"], canary, seed=0).texts) == 6


def test_without_generator_only_the_embedded_canaries_have_paraphrases(canary, tmp_path):
    with pytest.raises(MissingError):
        pools(None, tmp_path)(ATTACKS["paraphrase"], canary, seed=0)


def test_a_canary_without_texts_cannot_be_paraphrased(generator, tmp_path):
    bare = Canary(vectors=ENCODER.encode(RECORDS), id="bare")
    with pytest.raises(InputError, match="has no texts"):
        pools(generator, tmp_path)(ATTACKS["paraphrase"], bare, seed=0)
