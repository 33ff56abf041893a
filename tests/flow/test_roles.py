from dataclasses import replace

import numpy as np
import pytest

from canarybank.attack import ATTACKS, PAPER_ATTACKS, nonce_pool
from canarybank.config import CohortsConfig, resolve
from canarybank.encode import HashingEncoder
from canarybank.errors import CohortError, ConfigError, InputError
from canarybank.flow.inputs import canaries_of, chosen_attacks, cohort_sizes, draw_roles
from canarybank.users import Evaluation, Users

ALL = tuple(ATTACKS.values())


@pytest.fixture(scope="module")
def users():
    rng = np.random.default_rng(0)
    return Users.from_vectors({f"u{i:02d}": rng.normal(size=(4 if i % 2 else 3, 8)) for i in range(60)})


def names(attacks):
    return [attack.name for attack in attacks]


def test_available_attacks_leave_out_those_without_paraphrases_and_say_so():
    attacks, notes = chosen_attacks(resolve().config)
    assert names(attacks) == ["ordinary", "exact", "nonce", "nonce-norm", "nonce-mueff", "searched"]
    assert "paraphrase-mueff" in notes[0]


@pytest.mark.parametrize(
    "flags", [{"generator.kind": "smollm2"}, {"cohorts.fixed": "embedded"}, {"attack.names": "all"}]
)
def test_all_attacks_run_where_paraphrases_can_be_had_or_are_demanded(flags):
    assert chosen_attacks(resolve(flags=flags).config) == (ALL, ())


REMOTE = {"generator.kind": "openai", "generator.model": "m", "generator.base_url": "http://far.example/v1"}


def test_paraphrases_by_a_server_need_permission():
    attacks, (note,) = chosen_attacks(resolve(flags=REMOTE).config)
    assert names(attacks) == ["ordinary", "exact", "nonce", "nonce-norm", "nonce-mueff", "searched"]
    assert note.startswith("Skipped: paraphrase, paraphrase-norm, paraphrase-mueff, paraphrase-exact. ")
    assert "send users' records to http://far.example/v1; set attack.send_records to true" in note
    assert chosen_attacks(resolve(flags=REMOTE | {"attack.send_records": True}).config) == (ALL, ())


@pytest.mark.parametrize("asked", ["all", "paraphrase", "exact,paraphrase-mueff"])
def test_paraphrases_by_a_server_that_are_named_are_refused_without_permission(asked):
    flags = REMOTE | {"attack.names": asked}
    with pytest.raises(ConfigError, match=r"to http://far\.example/v1.*Set attack\.send_records to true.*smollm2"):
        chosen_attacks(resolve(flags=flags).config)
    for allowed in ({"attack.send_records": True}, {"cohorts.fixed": "embedded"}):
        assert chosen_attacks(resolve(flags=flags | allowed).config)[1] == ()


@pytest.mark.parametrize(
    ("flags", "left", "kept"),
    [
        ({}, "paraphrase-mueff, paraphrase-exact, nonce, nonce-norm, nonce-mueff, searched", ["ordinary", "exact"]),
        ({"generator.kind": "smollm2"}, "paraphrase-mueff, paraphrase-exact, nonce", ["ordinary", "exact"]),
        (
            {"cohorts.fixed": "embedded"},
            "write: nonce, nonce-norm, nonce-mueff, searched;",
            ["ordinary", "exact", "paraphrase", "paraphrase-norm", "paraphrase-mueff", "paraphrase-exact"],
        ),
    ],
)
def test_a_file_of_vectors_leaves_out_the_attacks_that_write_texts_and_says_so(flags, left, kept):
    attacks, notes = chosen_attacks(resolve(flags={"encoder.name": "mine/v.NPZ", **flags}).config)
    assert names(attacks) == kept
    (note,) = notes
    assert "'mine/v.NPZ' has no vectors for the texts that they write" in note
    assert left in note


@pytest.mark.parametrize(
    ("asked", "refused", "advice"),
    [
        ("all", "The attacks paraphrase, ", "--attack.names ordinary,exact."),
        ("nonce", "The attacks nonce write", "--attack.names ordinary,exact."),
        ("exact,paraphrase", "The attacks paraphrase write", "--attack.names exact."),
    ],
)
def test_an_attack_that_writes_texts_is_refused_with_a_file_of_vectors(asked, refused, advice):
    with pytest.raises(ConfigError, match="choose an encoder that reads texts") as caught:
        chosen_attacks(resolve(flags={"encoder.name": "v.parquet", "attack.names": asked}).config)
    assert refused in str(caught.value)
    assert advice in str(caught.value)


@pytest.mark.parametrize(("flags", "without"), [({}, "paraphrase"), ({"cohorts.fixed": "embedded"}, "nothing")])
def test_the_paper_s_attacks_are_its_eight_as_far_as_they_can_be_had(flags, without):
    found, notes = chosen_attacks(resolve(flags={"attack.names": "paper", **flags}).config)
    assert names(found) == [name for name in PAPER_ATTACKS if not name.startswith(without)]
    assert len(PAPER_ATTACKS) == 8
    assert bool(notes) == (without == "paraphrase")


def test_canaries_that_a_search_makes_are_drawn_by_nobody_else(users):
    config = CohortsConfig(canaries=2)
    with pytest.raises(InputError, match="The canaries of searched are what a search finds"):
        canaries_of(ATTACKS["searched"], draw_roles(config, users, ALL), config, HashingEncoder().encode)


def test_attacks_come_in_the_usual_order():
    assert names(chosen_attacks(resolve(flags={"attack.names": "nonce,ordinary"}).config)[0]) == ["ordinary", "nonce"]


def test_sizes_that_are_given_stay():
    sizes = cohort_sizes(CohortsConfig(evaluation=7, canaries=2), 60, (ATTACKS["ordinary"],))
    assert (sizes.auxiliary, sizes.calibration, sizes.evaluation) == (14, 14, 7)


def test_every_attack_draws_its_own_canaries_and_none_is_in_a_cohort(users):
    cohorts = draw_roles(CohortsConfig(canaries=3), users, ALL)
    real = [a.name for a in ALL if a.canary == "real"]
    assert list(cohorts.canaries) == real
    assert len({cohorts.canaries[name].ids for name in real}) > 1
    taken = {i for chosen in cohorts.canaries.values() for i in chosen.ids}
    for cohort in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation):
        assert not taken & set(cohort.users.ids)
    assert all((chosen.counts == 4).all() for chosen in cohorts.canaries.values())


def test_shared_canaries_are_the_same_for_all(users):
    cohorts = draw_roles(CohortsConfig(canaries=3, shared=True), users, ALL)
    assert len({chosen.ids for chosen in cohorts.canaries.values()}) == 1


def test_fixed_canaries_are_taken_in_their_order_and_no_trial_seed_moves_them(users):
    config = CohortsConfig(canaries=2, fixed=("u07", "u03", "u01"))
    cohorts = draw_roles(config, users, ALL)
    assert {chosen.ids for chosen in cohorts.canaries.values()} == {("u07", "u03")}
    assert len(cohorts.evaluation) == 28


@pytest.mark.parametrize(
    ("fixed", "message"),
    [(("u07",), "names 1 users"), (("u07", "u07"), "names 1 users"), (("u07", "zz"), "'zz' is not among")],
)
def test_wrong_fixed_canaries_are_refused(users, fixed, message):
    with pytest.raises(CohortError, match=message):
        draw_roles(CohortsConfig(canaries=2, fixed=fixed), users, ALL)


def test_canaries_are_real_or_nonces_as_the_attack_says(users):
    config = CohortsConfig(canaries=2)
    cohorts, encode = draw_roles(config, users, ALL), HashingEncoder().encode
    real = canaries_of(ATTACKS["exact"], cohorts, config, encode)
    assert [canary.id for canary in real] == list(cohorts.canaries["exact"].ids)
    nonce = canaries_of(ATTACKS["nonce"], cohorts, config, encode)
    assert [len(canary) for canary in nonce] == [4, 4]
    assert nonce[0].texts != nonce[1].texts


def test_the_evaluation_cohort_shapes_no_nonce_canary(users):
    config = CohortsConfig(canaries=2)
    cohorts, encode = draw_roles(config, users, ALL), HashingEncoder().encode
    longer = Users.from_vectors({f"e{i}": np.ones((9, 8)) for i in range(5)})
    other = replace(cohorts, evaluation=Evaluation(longer))
    before, after = (canaries_of(ATTACKS["nonce"], each, config, encode) for each in (cohorts, other))
    assert [canary.texts for canary in before] == [canary.texts for canary in after]


def nonces_of(users, *, seed=0, **changes):
    config = CohortsConfig(canaries=2, seed=seed, **changes)
    cohorts, encode = draw_roles(config, users, ALL), HashingEncoder().encode
    return {a.name: canaries_of(a, cohorts, config, encode) for a in ALL if a.pool == "nonces"}


def test_each_nonce_attack_draws_canaries_and_pools_of_its_own(users):
    found, pool = nonces_of(users), nonce_pool(HashingEncoder().encode)
    canaries = [canary for group in found.values() for canary in group]
    assert len({canary.id for canary in canaries}) == len({canary.texts for canary in canaries}) == 6
    assert len({pool(canary, 5, 0).texts for canary in canaries}) == 6


def test_shared_nonces_are_the_same_for_all_nonce_attacks(users):
    found = nonces_of(users, shared=True)
    assert len({tuple(canary.texts for canary in group) for group in found.values()}) == 1
    assert len({tuple(canary.id for canary in group) for group in found.values()}) == 1


@pytest.mark.parametrize("fixed", [(), ("u01", "u03")])
def test_a_nonce_canary_has_as_many_records_as_a_real_one(fixed):
    # One user of three has the four records of a canary: by seed, the auxiliary users have none of them.
    people = Users.from_vectors({f"u{i:02d}": np.eye(8)[: 4 if i in {1, 3, 5} else 2] for i in range(24)})
    for seed in range(6):
        found = nonces_of(people, seed=seed, fixed=fixed, shared=True)
        assert {len(canary) for group in found.values() for canary in group} == {4}
