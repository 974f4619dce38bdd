"""Run the `rabbitlike` command with `python -m rabbitlike`."""

import sys

from rabbitlike.cli import main

sys.exit(main())
