import csv
import json

import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow.bank import bank_prompt
from canarybank.flow.inputs import admit_users, chosen_attacks, draw_roles
from canarybank.generate import bank_plan
from canarybank.paper.runs import arm_a, arm_b, dataset_of
from canarybank.store import StageCache


def test_what_is_not_given_is_as_in_the_paper(bare, tmp_path):
    (tmp_path / "bank.txt").write_text("\n".join(f"text {i}" for i in range(9000)) + "\n")
    found = arm_a(
        bare(data=str(tmp_path / "reviews.json"), flags={"users.format": "yelp"}, bank=str(tmp_path / "bank.txt"))
    )
    config = found.config
    paper = {"k": 5, "clip": 0.1, "sigma": 1.0, "q": 0.1, "delta": 1e-5}
    assert config.mechanism.model_dump() == paper | {"share": 1.0, "entry_cap": None}
    assert (config.attack.probes, config.attack.pool, config.bank.size) == (64, 512, 8192)
    assert (config.audit.trials, config.audit.alpha, config.audit.method) == (1_000_000, 0.05, "paper")
    assert (config.audit.threshold, config.audit.accounted) == ("calibrated", 1.695)
    assert (config.users.minimum, config.users.cap, config.cohorts.canaries) == (64, 64, 5)
    assert (config.encoder.name, config.encoder.keep_vectors) == ("minilm", True)  # every piece encodes the same users
    assert dataset_of(config) == "yelp"
    assert found.origins["audit.trials"] == "the paper"


def test_a_flag_beats_the_paper(bare):
    found = arm_a(bare(flags={"audit.trials": 7, "mechanism.sigma": 2.0}))
    assert found.config.audit.trials == 7
    assert found.config.audit.accounted is None
    assert found.origins["audit.trials"] == "flag"


def test_built_in_users_bring_their_encoder_bank_and_paraphrases(bare):
    config = arm_a(bare()).config
    assert (config.encoder.name, config.bank.source, config.cohorts.fixed) == ("wordllama", "embedded", ("embedded",))
    assert dataset_of(config) is None


REMOTE = {"generator.kind": "openai", "generator.model": "m", "generator.base_url": "http://127.0.0.1:9/v1"}


def test_a_server_sees_no_record_of_the_built_in_users_without_permission(bare):
    assert arm_a(bare(flags=REMOTE)).config.cohorts.fixed == ("embedded",)
    assert arm_a(bare(flags=REMOTE | {"attack.send_records": True})).config.cohorts.fixed == ()


def test_arm_b_shows_a_server_examples_of_users_with_permission_alone(bare, world, tmp_path):
    flags = REMOTE | {"bank.labels": "talk", "attack.names": "ordinary", "cohorts.evaluation": 4}
    asked = {"data": str(world / "users.csv"), "bank": str(world / "bank.csv"), "prompt_b": "bank-examples"}
    with pytest.raises(ConfigError, match=r"Arm B .*would send users' records to http.*or give .* --bank-b"):
        arm_b(bare(flags=flags, **asked))
    assert not (tmp_path / "rep" / "examples.jsonl").exists()
    assert arm_b(bare(flags=flags | {"attack.send_records": True}, **asked)).config.bank.examples
    assert arm_b(bare(flags=flags, **asked, bank_b=str(world / "bank.csv"))).config.bank.examples is None


def test_a_generator_writes_the_bank(bare, world):
    flags = {"generator.kind": "smollm2", "users.format": "csv"}
    config = arm_a(bare(flags=flags, data=str(world / "users.csv"))).config
    assert (config.bank.source, config.bank.size) == ("generate", 8192)


def test_arm_b_shows_examples_of_users_outside_all_cohorts(bare, world, tmp_path):
    flags = {
        "generator.kind": "smollm2",
        "bank.labels": "talk",
        "attack.names": "ordinary",
        "cohorts.auxiliary": 4,
        "cohorts.calibration": 4,
        "cohorts.evaluation": 8,
        "cohorts.canaries": 1,
    }
    asked = bare(flags=flags, data=str(world / "users.csv"), prompt_b="bank-examples")
    config = arm_b(asked).config
    assert (config.bank.source, config.bank.prompt) == ("generate", "bank-examples")
    lines = (tmp_path / "rep" / "examples.jsonl").read_text().splitlines()
    assert len(lines) == 30 - 17
    assert config.bank.examples == str(tmp_path / "rep" / "examples.jsonl")


def test_a_size_that_is_given_holds_for_both_arms(bare, world, tmp_path):
    (tmp_path / "bank.txt").write_text("\n".join(f"text {i}" for i in range(50)) + "\n")
    files = {"data": str(world / "users.csv"), "bank": str(world / "bank.csv")}
    flags = {"generator.kind": "smollm2", "bank.labels": "talk", "cohorts.canaries": 1, "users.cap": 2}
    for more in ({}, {"bank_b": str(tmp_path / "bank.txt")}):
        asked = bare(flags=flags | {"bank.size": 30}, **files, **more)
        assert [arm(asked).config.bank.size for arm in (arm_a, arm_b)] == [30, 30]
    assert arm_b(bare(flags=flags, **files)).config.bank.size == 8192
    assert arm_b(bare(flags=flags, **files, **more)).config.bank.size == 50


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("yelp", '{{"user_id": "u{user}", "stars": 1.0, "text": "soup {user} {record}"}}', "give one star out of five"),
        ("sentiment140", '"0","{record}","","NO_QUERY","u{user}","soup {user} {record}"', "sad, annoyed"),
    ],
)
def test_arm_b_asks_in_words_where_labels_are_codes(bare, tmp_path, name, line, words):
    lines = [line.format(user=user, record=record) for user in range(30) for record in range(2)]
    (tmp_path / "users.txt").write_text("\n".join(lines) + "\n")
    flags = {"generator.kind": "smollm2", "users.format": name, "users.minimum": 1, "cohorts.canaries": 1}
    flags |= {"attack.names": "ordinary", "cohorts.evaluation": 4, "users.cap": 2}
    bank = arm_b(bare(flags=flags, data=str(tmp_path / "users.txt"))).config.bank
    prompt, examples = bank_prompt(bank)
    request = bank_plan(9, bank.labels, prompt=prompt, examples=examples).requests()[0]
    assert prompt.name == f"bank-{name}-examples"
    assert words in request.prompt
    assert request.prompt.count("- soup") == 3
    mine = bare(flags=flags, data=str(tmp_path / "users.txt"), prompt_b="bank-examples")
    assert arm_b(mine).config.bank.prompt == "bank-examples"


def test_arm_b_needs_a_generator_or_a_file(bare):
    with pytest.raises(ConfigError, match="Arm B"):
        arm_b(bare())


def test_small_is_smaller_than_the_paper_in_everything_that_costs(bare):
    config = arm_a(bare(small=True)).config
    assert config.audit.trials == 50_000
    assert (config.cohorts.auxiliary, config.cohorts.evaluation, config.bank.size) == (60, 120, 1024)


def test_small_takes_whatever_the_papers_scale_takes_and_keeps_cohorts_that_are_given(bare, world):
    files = {"data": str(world / "users.csv"), "small": True}
    nonces = {"attack.names": "nonce,nonce-norm,nonce-mueff", "cohorts.canaries": 10, "bank.source": "embedded"}
    assert arm_a(bare(flags=nonces, **files)).config.cohorts == resolve(flags=nonces).config.cohorts
    given = arm_a(bare(flags=nonces | {"cohorts.evaluation": 13}, **files)).config.cohorts
    assert (given.auxiliary, given.calibration, given.evaluation) == (None, None, 13)
    large = arm_a(bare(flags={"cohorts.evaluation": 200}, small=True)).config.cohorts
    assert (large.auxiliary, large.calibration, large.evaluation) == (60, 60, 200)


def test_the_examples_of_arm_b_are_texts_of_users_who_play_no_role(bare, world, tmp_path):
    flags = {
        "generator.kind": "smollm2",
        "bank.labels": ("a day out",),
        "attack.names": ("ordinary", "exact"),
        "cohorts.auxiliary": 4,
        "cohorts.calibration": 4,
        "cohorts.evaluation": 8,
        "cohorts.canaries": 2,
    }
    config = arm_b(bare(flags, data=str(world / "users.csv"))).config
    users = admit_users(config.users, config.cohorts, StageCache()).users
    roles = draw_roles(config.cohorts, users, chosen_attacks(config)[0])
    playing = [set(each.users.ids) for each in (roles.auxiliary, roles.calibration, roles.evaluation)]
    playing += [set(each.ids) for each in roles.canaries.values()]
    assert [len(each) for each in playing] == [4, 4, 8, 2, 2]
    with (world / "users.csv").open(newline="") as file:
        owners = {row["text"]: row["user"] for row in csv.DictReader(file)}
    assert len(owners) == 240  # no text is of two users
    lines = (tmp_path / "rep" / "examples.jsonl").read_text().splitlines()
    shown = [owners[json.loads(line)["text"]] for line in lines]
    assert sorted(shown) == sorted(set(users.ids).difference(*playing))
    assert len(shown) == 10
