"""`python -m tests.bench`, the same as running bench.py: its modules import each other as scripts in one folder do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import main  # noqa: E402

sys.exit(main())
