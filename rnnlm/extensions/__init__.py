"""What a night does not need. Each folder plugs into the spine (rnnlm/extension_points.py) and can be deleted."""

import rnnlm.config  # noqa: F401  first: it needs the sections that extensions add, and these need its Section
