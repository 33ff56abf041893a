"""Write the golden schemas anew, after a deliberate change of a model."""

import json
from pathlib import Path

from canarybank.config.model import Config
from canarybank.run.results import schema

HERE = Path(__file__).parent

if __name__ == "__main__":
    for name, value in {"config": Config.model_json_schema(), **schema()}.items():
        (HERE / f"{name}.schema.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
