"""Optional features. Each subfolder registers its feature at rnnlm/extension_points.py and can be deleted."""

import rnnlm.config  # noqa: F401  first: it needs the sections that extensions add, and these need its Section
