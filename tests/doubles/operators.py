"""Operate a system that is not ours: read a plant's files as docs/foreign.md describes them, and write CSV."""

import csv
import json

import numpy as np

from canarybank.store import hash_file


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def operate(plant, to, *, noise=1.0, q=1.0, rounds=1, seed=0, schedule=None, change=lambda _row, line: line):
    """Run a Gaussian mechanism of clip 0.1 for each line of the schedule; ``noise`` is in units of the clip.

    A canary that takes part in a release puts the clip's whole norm on its own probes, all labels together.
    ``change`` gets the line of the schedule and each line that is to be written, and returns it, or None.
    """
    probes = rows_of(plant / "probes.csv")
    owners = np.array([probe["canary"] for probe in probes])
    with to.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "round", "label", "position", "value"])
        for row in rows_of(schedule or plant / "schedule.csv"):
            rng = np.random.default_rng([seed, int(row["run"])])
            own = owners == row["plant"]
            votes = 0.1 * own / np.sqrt(max(1, own.sum()))
            for number in range(1, rounds + 1):
                values = rng.normal(0.0, 0.1 * noise, len(probes)) + votes * (rng.random() < q)
                for probe, value in zip(probes, values, strict=True):
                    line = change(row, [row["run"], number, probe["label"], probe["position"], repr(float(value))])
                    if line is not None:
                        writer.writerow(line)
    return to


def altered(path, change):
    """Change a JSON file, keeping its form."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def forge(plant, name, change):
    """Change a JSON file of a plant, and enter its new hash into the manifest, as a forger would."""
    altered(plant / name, change)
    if name != "manifest.json":
        altered(plant / "manifest.json", lambda value: value["files"].update({name: hash_file(plant / name)}))
