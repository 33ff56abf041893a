from pathlib import Path

import pytest

from canarybank.auditing import TrialEngine, ceiling, trials_needed
from canarybank.config import resolve
from canarybank.errors import ConfigError, GenerationError
from canarybank.flow import plan, run_audit
from canarybank.flow.planning import share_trial_rate
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.run import gate


@pytest.mark.usefixtures("fresh_cache")
def test_a_plan_of_a_new_run_says_what_is_to_do(flags, tmp_path):
    found = plan(resolve(flags=flags), tmp_path / "run")
    assert found.state == "new"
    assert not any(
        stage.cached for stage in found.stages if stage.stage in {"users", "vectors", "designs", "evaluation"}
    )
    assert (found.users, found.records, found.eligible) == (30, 240, 14)
    assert found.attacks == ("ordinary", "nonce-norm")
    assert found.trials == 2 * 2 * 3000 * 2 * 2
    assert found.trials_per_second > 0
    assert found.seconds > 0
    assert found.memory_mib > 100
    assert not (tmp_path / "run").exists()


def test_a_plan_forecasts_at_the_share_of_alpha_that_the_verdict_uses(flags, tmp_path):
    found, mechanism = plan(resolve(flags=flags), tmp_path / "run"), Mechanism(k=3)
    share = 0.05 / (2 * 2)  # over two attacks, and over two canaries of each
    most = ceiling(mechanism, 3000, alpha=share, canaries=2)
    assert (found.ceiling, found.ceiling_range) == (most.median, (most.q05, most.q95))
    assert found.epsilon == one_round_epsilon(mechanism)
    assert found.trials_for_goal == trials_needed(mechanism, 0.9 * found.epsilon, alpha=share, canaries=2)


def test_a_gate_gives_each_attack_the_share_that_the_plan_forecast(resolved, finished):
    outcome = gate(finished.folder, 5.0)
    most = ceiling(Mechanism(k=3), 3000, alpha=outcome.attacks[0].alpha / 2, canaries=2)
    assert plan(resolved, finished.folder).ceiling == most.median


@pytest.mark.usefixtures("fresh_cache")
def test_every_text_to_encode_is_counted_once(flags, tmp_path):
    told = resolve(flags=flags)
    before = plan(told, tmp_path / "run").texts_to_encode
    run_audit(told, tmp_path / "run")
    after = plan(told, tmp_path / "other")
    users = {line.split(",")[1] for line in Path(flags["users.source"]).read_text().splitlines()[1:]}
    bank = set(Path(flags["bank.source"]).read_text().splitlines()[1:])
    assert before == len(users | bank) + 2 * 8 + 2 * 40
    assert after.texts_to_encode == 0
    assert {stage.stage for stage in after.stages if stage.cached} >= {"users", "vectors", "bank"}


def test_analytic_thresholds_take_no_calibration_trials(flags, tmp_path):
    found = plan(resolve(flags={**flags, "audit.threshold": "analytic"}), tmp_path / "run")
    assert found.trials == 2 * 3000 * 2 * 2


def test_a_finished_run_has_nothing_left(resolved, finished):
    found = plan(resolved, finished.folder)
    assert (found.state, found.trials, found.seconds) == ("finished", 0, 0)
    assert all(stage.cached for stage in found.stages)


def test_a_begun_run_counts_what_is_done(resolved, copied):
    manifest = copied / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"state": "finished"', '"state": "started"'))
    found = plan(resolved, copied)
    assert found.state == "resumes"
    assert found.trials == 2 * 3000 * 2 * 2


def test_other_settings_are_refused_here_too(flags, finished):
    with pytest.raises(ConfigError, match=r"mechanism\.q: 0\.1 -> 0\.2"):
        plan(resolve(flags={**flags, "mechanism.q": 0.2}), finished.folder)


@pytest.mark.usefixtures("fresh_cache")
def test_the_generators_work_is_counted(flags, tmp_path, answering):
    told = resolve(
        flags={
            **flags,
            "generator.kind": "scripted_answers:write",
            "bank.source": "generate",
            "bank.labels": "cats,dogs",
            "bank.size": 30,
            "attack.names": "paraphrase,paraphrase-norm",
            "cohorts.shared": True,
        }
    )
    answers = [f"I saw number {number} of them in the garden." for number in range(10)]
    with answering(answers, "counted"):
        found = plan(told, tmp_path / "run").generator
        # 30 entries, and pools of 40 for two shared canaries, at three usable answers in four
        assert found.calls == 40 + 2 * 54
        assert found.tokens > found.calls * 40
        with pytest.raises(GenerationError):  # the script ends, and what it said stays
            run_audit(told, tmp_path / "elsewhere")
        again = plan(told, tmp_path / "run").generator
    assert (again.calls, again.cached) == (found.calls - 10, 10)


def test_the_literal_engine_is_measured_as_itself(flags, tmp_path):
    # It draws whole releases, tens of times more slowly than scores alone are drawn. A busy machine may make any
    # one measure slow, never fast.
    told = {**flags, "attack.probes": 40, "attack.pool": 40}
    rates = {
        engine: max(
            plan(resolve(flags={**told, "audit.engine": engine.value}), tmp_path / "run").trials_per_second
            for _ in range(3)
        )
        for engine in TrialEngine
    }
    assert 0 < rates[TrialEngine.LITERAL] < rates[TrialEngine.PROJECTED] / 4


def test_secret_shares_are_measured_as_themselves(flags, tmp_path):
    whole, shared, thin = (
        plan(resolve(flags={**flags, "mechanism.share": share}), tmp_path / "run") for share in (1.0, 0.5, 0.1)
    )
    assert shared.trials_per_second < whole.trials_per_second / 20
    assert shared.seconds > whole.seconds
    assert whole.memory_mib < shared.memory_mib < thin.memory_mib
    assert any("secret shares" in note for note in shared.notes)
    assert not any("secret shares" in note for note in whole.notes)


def test_a_trial_under_a_share_takes_as_long_as_its_eligible_users():
    few, many = (share_trial_rate(Mechanism(share=0.5), count, 4, 16, 200) for count in (4, 4000))
    assert many < few / 100
