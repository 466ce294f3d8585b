"""``python -m harness.pipeline.speed.originals [--write]``"""

import sys

from harness.pipeline.speed.originals import main
from harness.vendors.quiet import silence_vendors

silence_vendors()
sys.exit(main(sys.argv[1:]))
