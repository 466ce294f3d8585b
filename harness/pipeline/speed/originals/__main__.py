"""``python -m harness.pipeline.speed.originals [--write]``"""

import sys

from harness.pipeline.speed.originals import main

sys.exit(main(sys.argv[1:]))
