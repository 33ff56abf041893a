"""Operate a system once: read the files of a plant of one run as its README describes them, and write CSV."""

import csv
import json

import numpy as np
from operators import rows_of

K, CLIP = 3, 0.1


def contributions_of(plant):
    """Return each canary that is in with what it contributes at the probes: k nearest, normalised, clipped."""
    entries = np.load(plant / "probes.npy").astype(np.float64)
    vectors = np.load(plant / "canaries.npy").astype(np.float64)
    owners = [json.loads(line)["canary"] for line in (plant / "canaries.jsonl").read_text().splitlines()]
    given = {name: np.zeros(len(entries)) for name in dict.fromkeys(owners)}
    for owner, vector in zip(owners, vectors, strict=True):
        given[owner][np.argsort(((entries - vector) ** 2).sum(axis=1), kind="stable")[:K]] += 1.0
    shares = {name: votes / (K * owners.count(name)) for name, votes in given.items()}
    return {name: votes * min(1.0, CLIP / np.linalg.norm(votes)) for name, votes in shares.items()}


def operate_once(plant, folder, *, rounds, noise=1.0, q=1.0, seed=0, reuse_noise=False):
    """Run a Gaussian mechanism once; write releases.csv and took.csv. ``noise`` is in units of the clip."""
    places = [row["position"] for row in rows_of(plant / "probes.csv")]
    given, rng = contributions_of(plant), np.random.default_rng([5, seed])
    first = rng.normal(0.0, CLIP * noise, len(places))
    with (folder / "releases.csv").open("w", newline="") as to, (folder / "took.csv").open("w", newline="") as coins:
        releases, took = csv.writer(to), csv.writer(coins)
        releases.writerow(["round", "position", "value"])
        took.writerow(["canary", "round"])
        for number in range(1, rounds + 1):
            values = first.copy() if reuse_noise else rng.normal(0.0, CLIP * noise, len(places))
            for name, votes in given.items():
                if rng.random() < q:
                    values += votes
                    took.writerow([name, number])
            releases.writerows([number, place, repr(float(value))] for place, value in zip(places, values, strict=True))
    return folder / "releases.csv", folder / "took.csv"
