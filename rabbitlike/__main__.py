"""`python -m rabbitlike` is the `rabbitlike` command."""

import sys

from rabbitlike.cli import main

sys.exit(main())
