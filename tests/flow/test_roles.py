import pytest

from canarybank.attack import ATTACKS, PAPER_ATTACKS
from canarybank.config import resolve
from canarybank.errors import CohortError, ConfigError, InputError
from canarybank.flow import gather
from canarybank.store import StageCache

ALL = tuple(ATTACKS.values())


def chosen(**flags):
    """Return the attacks that a configuration runs, and notes on those that it leaves out."""
    inputs = gather(resolve(flags=flags).config, StageCache(), None)
    return inputs.attacks, inputs.left_out


def written(path, counts):
    """Write a file of users u00, u01 ... with so many records each."""
    rows = [f"u{i:02d},text {j} of user {i}" for i, count in enumerate(counts) for j in range(count)]
    path.write_text("\n".join(["user,text", *rows]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """Sixty users, every other one with four records, the others with three."""
    return written(tmp_path_factory.mktemp("users") / "users.csv", [4 if i % 2 else 3 for i in range(60)])


def gathered(users, **flags):
    """Return the inputs of an audit by all attacks."""
    told = {"users.source": users, "encoder.name": "hashing", "attack.names": "all", "cohorts.canaries": 2}
    flags = {key.replace("__", "."): value for key, value in flags.items()}
    return gather(resolve(flags=told | flags).config, StageCache(), None)


@pytest.mark.parametrize("given", [None, True, False])
def test_an_evolution_keeps_vectors_unless_it_is_told_not_to_and_an_audit_leaves_it_to_the_encoder(users, given):
    config = resolve(flags={"users.source": users, "encoder.name": "hashing", "encoder.keep_vectors": given}).config
    audited, evolving = (gather(config, StageCache(), None, evolving=each).recipe.keep for each in (False, True))
    assert audited is given
    assert evolving is (True if given is None else given)


def names(attacks):
    return [attack.name for attack in attacks]


def test_available_attacks_leave_out_those_without_paraphrases_and_say_so():
    attacks, notes = chosen()
    assert names(attacks) == ["ordinary", "exact", "nonce", "nonce-norm", "nonce-mueff", "searched"]
    assert "paraphrase-mueff" in notes[0]


@pytest.mark.parametrize(
    "flags", [{"generator.kind": "smollm2"}, {"cohorts.fixed": "embedded"}, {"attack.names": "all"}]
)
def test_all_attacks_run_where_paraphrases_can_be_had_or_are_demanded(flags):
    assert chosen(**flags) == (ALL, ())


REMOTE = {"generator.kind": "openai", "generator.model": "m", "generator.base_url": "http://far.example/v1"}


def test_paraphrases_by_a_server_need_permission():
    attacks, (note,) = chosen(**REMOTE)
    assert names(attacks) == ["ordinary", "exact", "nonce", "nonce-norm", "nonce-mueff", "searched"]
    assert note.startswith("Skipped: paraphrase, paraphrase-norm, paraphrase-mueff, paraphrase-exact. ")
    assert "send users' records to http://far.example/v1; set attack.send_records to true" in note
    assert chosen(**(REMOTE | {"attack.send_records": True})) == (ALL, ())


@pytest.mark.parametrize("asked", ["all", "paraphrase", "exact,paraphrase-mueff"])
def test_paraphrases_by_a_server_that_are_named_are_refused_without_permission(asked):
    flags = REMOTE | {"attack.names": asked}
    with pytest.raises(ConfigError, match=r"to http://far\.example/v1.*Set attack\.send_records to true.*smollm2"):
        chosen(**flags)
    for allowed in ({"attack.send_records": True}, {"cohorts.fixed": "embedded"}):
        assert chosen(**(flags | allowed))[1] == ()


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
    attacks, notes = chosen(**{"encoder.name": "mine/v.NPZ", **flags})
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
        chosen(**{"encoder.name": "v.parquet", "attack.names": asked})
    assert refused in str(caught.value)
    assert advice in str(caught.value)


@pytest.mark.parametrize(("flags", "without"), [({}, "paraphrase"), ({"cohorts.fixed": "embedded"}, "nothing")])
def test_the_paper_s_attacks_are_its_eight_as_far_as_they_can_be_had(flags, without):
    found, notes = chosen(**{"attack.names": "paper", **flags})
    assert names(found) == [name for name in PAPER_ATTACKS if not name.startswith(without)]
    assert len(PAPER_ATTACKS) == 8
    assert bool(notes) == (without == "paraphrase")


def test_canaries_that_a_search_makes_are_drawn_by_nobody_else(users):
    with pytest.raises(InputError, match="The canaries of searched are what a search finds"):
        gathered(users).canaries(ATTACKS["searched"])


def test_attacks_come_in_the_usual_order():
    assert names(chosen(**{"attack.names": "nonce,ordinary"})[0]) == ["ordinary", "nonce"]


def test_sizes_that_are_given_stay(users):
    roles = gathered(users, attack__names="ordinary", cohorts__evaluation=7).roles
    assert [len(each) for each in (roles.auxiliary, roles.calibration, roles.evaluation)] == [14, 14, 7]


def test_every_attack_draws_its_own_canaries_and_none_is_in_a_cohort(users):
    roles = gathered(users, cohorts__canaries=3).roles
    real = [a.name for a in ALL if a.canary == "real"]
    assert list(roles.canaries) == real
    assert len({roles.canaries[name].ids for name in real}) > 1
    taken = {i for chosen in roles.canaries.values() for i in chosen.ids}
    for cohort in (roles.auxiliary, roles.calibration, roles.evaluation):
        assert not taken & set(cohort.users.ids)
    assert all((chosen.counts == 4).all() for chosen in roles.canaries.values())


def test_shared_canaries_are_the_same_for_all(users):
    roles = gathered(users, cohorts__canaries=3, cohorts__shared=True).roles
    assert len({chosen.ids for chosen in roles.canaries.values()}) == 1


def test_fixed_canaries_are_taken_in_their_order_and_no_seed_moves_them(users):
    for seed in (0, 1):
        roles = gathered(users, cohorts__fixed="u07,u03,u01", cohorts__seed=seed).roles
        assert {chosen.ids for chosen in roles.canaries.values()} == {("u07", "u03")}
        assert len(roles.evaluation) == 28


@pytest.mark.parametrize(
    ("fixed", "message"), [("u07", "names 1 users"), ("u07,u07", "names 1 users"), ("u07,zz", "'zz' is not among")]
)
def test_wrong_fixed_canaries_are_refused(users, fixed, message):
    with pytest.raises(CohortError, match=message):
        _ = gathered(users, cohorts__fixed=fixed).roles


def test_canaries_are_real_or_nonces_as_the_attack_says(users):
    inputs = gathered(users)
    real, nonce = (inputs.canaries(ATTACKS[name]) for name in ("exact", "nonce"))
    assert [canary.id for canary in real] == list(inputs.roles.canaries["exact"].ids)
    assert [len(canary) for canary in nonce] == [4, 4]
    assert nonce[0].texts != nonce[1].texts


def test_the_evaluation_cohort_shapes_no_nonce_canary(users):
    few, many = (gathered(users, cohorts__evaluation=size) for size in (2, 20))
    assert not set(few.roles.evaluation.users.ids) >= set(many.roles.evaluation.users.ids)
    before, after = (each.canaries(ATTACKS["nonce"]) for each in (few, many))
    assert [canary.texts for canary in before] == [canary.texts for canary in after]


def nonces_of(inputs):
    return {attack: inputs.canaries(attack) for attack in ALL if attack.pool == "nonces"}


def test_each_nonce_attack_draws_canaries_and_pools_of_its_own(users):
    inputs = gathered(users, attack__pool=5, attack__probes=5)
    found = [(attack, canary) for attack, group in nonces_of(inputs).items() for canary in group]
    assert len({canary.id for _, canary in found}) == len({canary.texts for _, canary in found}) == 6
    assert len({inputs.pool(attack, canary).texts for attack, canary in found}) == 6


def test_shared_nonces_are_the_same_for_all_nonce_attacks(users):
    found = nonces_of(gathered(users, cohorts__shared=True))
    assert len({tuple(canary.texts for canary in group) for group in found.values()}) == 1
    assert len({tuple(canary.id for canary in group) for group in found.values()}) == 1


@pytest.mark.parametrize("fixed", ["", "u01,u03"])
def test_a_nonce_canary_has_as_many_records_as_a_real_one(fixed, tmp_path):
    # One user of eight has the four records of a canary: by seed, the auxiliary users have none of them.
    people = written(tmp_path / "few.csv", [4 if i in {1, 3, 5} else 2 for i in range(24)])
    told = {"users__cap": 4, "cohorts__shared": True, **({"cohorts__fixed": fixed} if fixed else {})}
    for seed in range(6):
        found = nonces_of(gathered(people, cohorts__seed=seed, **told))
        assert {len(canary) for group in found.values() for canary in group} == {4}
