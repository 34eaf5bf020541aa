"""Everything that a night can do without. Each folder plugs in at rnnlm/extension_points.py and can be deleted."""

import rnnlm.config  # noqa: F401  first: it needs the sections that extensions add, and these need its Section
