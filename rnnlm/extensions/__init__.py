"""Optional features. Each subfolder adds one feature through rnnlm/extension_points.py, and can be deleted."""

import rnnlm.config  # noqa: F401  first: it needs the sections that extensions add, and these need its Section
