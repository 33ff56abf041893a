"""Run the command line as ``python -m canarybank``."""

import sys

from canarybank.cli import main

if __name__ == "__main__":
    sys.exit(main())
