"""The neighbour test over users who lie in shards: streamed or not, nothing leaves but the release."""

from unittest.mock import patch

import pytest

from canarybank.encode import HashingEncoder
from canarybank.errors import DataError
from canarybank.testing import compare_worlds

STREAMED = {"run.shards": 3, "run.workers": 1, "evolve.rounds": 1}
NEWCOMERS = {
    "csv": [[("new", "the cat and the dog", "a"), ("new", "rain on stone", "b")], [b'new,"the cat,a']],
    "jsonl": [[("new", f"cat {i}", "a") for i in range(400)], [b'{"user": "new", "text": ']],
    "parquet": [[("", "the cat", "a"), ("new", "", "a")]],
}


@pytest.mark.parametrize("kind", NEWCOMERS)
def test_nothing_but_the_release_leaves_users_in_shards(lab, kind):
    without = lab.world(lab.file(kind), kind, STREAMED)
    assert without.performance.code == 0
    assert without.has_run
    for rows in NEWCOMERS[kind]:
        joined = lab.world(lab.file(kind, lab.joined(rows, "middle")), kind, STREAMED)
        assert compare_worlds(without, joined, draws=1) == ()
    kept = {path.name for path in (lab.folder / "place" / "cache" / "stages").iterdir()}
    assert "shards" in kept
    assert "pass" not in kept  # votes without noise


def test_nothing_leaves_where_the_newcomer_makes_the_file_too_large_for_memory(lab):
    files = lab.file("jsonl"), lab.file("jsonl", lab.joined([("new", "the cat", "a")], "last"))
    with patch("canarybank.flow.sharding.STREAM_BYTES", len(files[0])):
        worlds = [lab.world(file, "jsonl", {"evolve.rounds": 1}) for file in files]
    assert [type(world.releases.voters.users.users).__name__ for world in worlds] == ["HeldUsers", "StreamedUsers"]
    assert compare_worlds(*worlds, draws=1) == ()


def test_a_release_drawn_from_shards_is_the_one_drawn_from_memory(lab):
    settings = {"mechanism.share": 0.5, "mechanism.k": 2}
    worlds = [
        lab.world(lab.file("csv"), settings={**STREAMED, **settings, "run.shards": number}, perform=lab.drawing)
        for number in (0, 3)
    ]
    assert {world.performance.code for world in worlds} == {0}
    held, streamed = ({name: data for name, data in world.files.items() if "/rounds/" in name} for world in worlds)
    assert any("release" in name for name in held)
    assert streamed == held


def test_a_text_that_cannot_be_encoded_casts_no_vote_and_stops_nobody(lab):
    encode = HashingEncoder.encode

    def failing(self, texts, /):
        if any("zebra" in text for text in texts):
            raise ValueError(texts)
        return encode(self, texts)

    newcomer = [("new", "zebra", "a"), ("new", "the cat", "a"), ("none", "zebra", "a")]
    files = lab.file("csv", lab.joined(newcomer[:1], "last")), lab.file("csv", lab.joined(newcomer, "last"))
    with patch.object(HashingEncoder, "encode", failing):
        without, joined = (lab.world(file, settings=STREAMED) for file in files)
        votes = joined.releases.voters.histogram
        bank, mechanism = joined.releases.banks[0], joined.releases.plan.mechanism
        ids = list(joined.releases.voters.users.ids)
        assert not votes([ids.index("none")], bank, mechanism).any()
        assert votes([ids.index("new")], bank, mechanism).any()
    assert (without.performance, joined.performance.code) == (joined.performance, 0)


def test_a_vote_that_fails_says_nothing_of_rows(lab):
    def failing(*_):
        raise DataError("alice wrote: the cat")

    with patch("canarybank.evolution.ballots.route", failing):
        world = lab.world(lab.file("csv"), settings=STREAMED)
    assert world.performance.code == DataError.exit_code
    assert "The step 'counting votes' failed" in world.performance.err
    assert "alice" not in world.performance.err


def test_a_vote_that_depends_on_the_shard_is_found(lab):
    from canarybank.evolution.streamed import CountVotes

    count = CountVotes.__call__

    def beside_others(self, part):
        return {"counted": count(self, part)["counted"] * (1 + len(part) % 2)}

    file = lab.file("csv"), lab.file("csv", lab.joined([(f"n{i}", "cat", "a") for i in range(1)], "last"))
    with patch.object(CountVotes, "__call__", beside_others):
        findings = compare_worlds(*(lab.world(each, settings=STREAMED) for each in file))
    assert findings
