"""An engine that works from the last task to the first, and remembers how much it did."""

done = []


class Backwards:
    """Run tasks one after another, the last first."""

    def run(self, function, tasks):
        for index in reversed(range(len(tasks))):
            done.append(index)
            yield index, function(tasks[index])
