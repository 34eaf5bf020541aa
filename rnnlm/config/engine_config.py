"""Settings that select the engine for independent parts of the work; see rnnlm/runtime/engines.py."""

from typing import Literal

from rnnlm.config.section import Section, setting


class EngineConfig(Section):
    """Settings of a section whose work is divided into independent pieces. They do not change the results."""

    engine: Literal["local", "ray"] = setting(
        "local",
        "Where pieces of the work run. `local`: in this process, or in several for large work. `ray`: on a Ray cluster "
        "that shares the rnnlm home, which needs the extra `ray`.",
        changes_results=False,
    )
    processes: int | None = setting(
        None,
        "Largest number of local processes. If null, one per CPU core.",
        ge=1,
        le=1_024,
        changes_results=False,
    )
    ray_address: str | None = setting(
        None,
        "Address of the Ray cluster. If null, it is the cluster at RAY_ADDRESS, else the one that this machine belongs "
        "to, else a temporary one on this machine.",
        min_length=1,
        changes_results=False,
    )
