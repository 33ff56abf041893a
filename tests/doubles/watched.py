"""A progress for tests that shows nothing and notes the stages that are opened: what was done, and what was not."""

from canarybank.progress import Silent


class Watched(Silent):
    """Show nothing, and note the stages."""

    def __init__(self):
        self.stages = []

    def stage(self, name, total=None, unit=""):
        """Open a stage that shows nothing."""
        self.stages.append(name)
        return super().stage(name, total, unit)
