"""Our evolution with one thing wrong: releasers to put in the place of the one that draws as the plan says."""

from dataclasses import dataclass, replace

from canarybank.evolution import DrawnReleases, EvolutionPlan, Voters
from canarybank.seeds import stream


def changing(**change):
    """Return what makes releasers that draw by another mechanism than the plan's."""

    def releaser(voters, plan):
        return DrawnReleases(voters, replace(plan, mechanism=replace(plan.mechanism, **change_of(plan.mechanism))))

    def change_of(mechanism):
        return {name: value(mechanism) for name, value in change.items()}

    return releaser


@dataclass(frozen=True)
class OneNoise:
    """Draw coins afresh in every round, and add the same noise in all of them."""

    voters: Voters
    plan: EvolutionPlan

    def release(self, round_number, bank):
        self.__dict__["round"] = round_number
        return self.voters.simulate(bank, self.plan.mechanism, self)

    def random(self, size):
        return stream(self.plan.insecure_seed, "coins", self.round).random(size)

    def standard_normal(self, size):
        return stream(self.plan.insecure_seed, "the noise").standard_normal(size)


HONEST = DrawnReleases
BROKEN = {
    "sigma halved": changing(sigma=lambda mechanism: mechanism.sigma / 2),
    "q ignored": changing(q=lambda _: 1.0),
    # Votes are shares, so their norm is 1 at most: a clip of 1 with as much noise as before clips nothing.
    "clip skipped": changing(clip=lambda _: 1.0, sigma=lambda mechanism: mechanism.noise),
    "noise reused": OneNoise,
}
