"""Run every benchmark beside this file; print the ratios, write them as JSON, fail where one falls short.

Each `bench_*.py` holds a function `run()` that returns a list of `harness.Result`. Name some on the command
line to run only those: `python bench/run.py bench_route`.
"""

import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import Result, table  # noqa: E402, the path above makes it importable


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all of them."""
    modules = names or sorted(path.stem for path in HERE.glob("bench_*.py"))
    results: list[Result] = []
    for name in modules:
        print(f"running {name} ...", flush=True)
        results += importlib.import_module(name).run()
    print(table(results))
    target = HERE / "results" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps([r.as_dict() for r in results], indent=2) + "\n")
    print(f"written to {target.relative_to(HERE.parent)}")
    return 0 if all(r.met for r in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
