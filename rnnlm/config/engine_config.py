"""Settings that select the engine for independent parts of the work; see rnnlm/runtime/engines.py."""

from typing import Literal

from rnnlm.config.section import Section, setting


class EngineConfig(Section):
    """Settings of a section whose work is divided into independent pieces. They do not change the results."""

    engine: Literal["local", "ray"] = setting(
        "local",
        "Engine that runs the pieces of the work. `local`: this process, or several processes for large work. `ray`: a "
        "Ray cluster that shares the rnnlm home. This needs the `ray` extra.",
        changes_results=False,
    )
    processes: int | None = setting(
        None,
        "Maximum number of local processes. If null, it is the number of CPU cores.",
        ge=1,
        le=1_024,
        changes_results=False,
    )
    ray_address: str | None = setting(
        None,
        "Address of the Ray cluster. If null, the environment variable RAY_ADDRESS is used. If that is not set either, "
        "the cluster that this machine belongs to is used, or else a temporary cluster on this machine.",
        min_length=1,
        changes_results=False,
    )
