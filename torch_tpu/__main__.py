"""``python -m torch_tpu``: the command line."""

import sys

from torch_tpu._cli import main

sys.exit(main())
