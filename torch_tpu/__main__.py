"""``python -m torch_tpu``: the command line."""

import sys

from torch_tpu._cli import main

if __name__ == "__main__":
    sys.exit(main())
