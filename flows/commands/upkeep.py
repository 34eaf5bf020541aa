"""prune, backup, restore: keep a home small, and keep a copy of it."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.command import Given, Session, add_command, fields
from flows.commands.options import show_warnings
from rnnlm.upkeep.retention_config import RetentionConfig

APP = typer.Typer()


def prune_command(
    session: Session,
    retention: Annotated[
        Given, fields(RetentionConfig, "versions", "champions", "datasets", "days", "recent_hours", "dry_run")
    ],
) -> None:
    """Remove what nobody needs any more.

    Versions with an alias, the champions to roll back to and what they were made from are kept. Caches can be made
    again. Run it while trainings run: what they use is kept.

    rnnlm prune --dry-run
    rnnlm prune --versions 10 --days 90
    """
    config = retention.section(RetentionConfig)
    show_warnings()
    from flows.operations.dead_runs import oldest_living_run
    from flows.operations.prefect_history import remove_old_flow_runs
    from rnnlm.reports.upkeep_page import prune_text
    from rnnlm.upkeep.prune import prune_home

    if not config.dry_run:
        remove_old_flow_runs(session.home, config.days)
    pruned = prune_home(session.home, config, oldest_living_run(session.home))
    session.print_result(prune_text(pruned), pruned.model_dump(mode="json"))


def backup_command(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, or one with an earlier backup.")],
) -> None:
    """Back up registry, metrics, registered models and corpora.

    Run it at any time, also while a training runs. Into the same folder again it copies only what is new. Datasets and
    runs of registered versions and Prefect's database are in it, unfinished runs and caches are not.

    rnnlm backup /mnt/backup/rnnlm
    """
    show_warnings()
    from rnnlm.reports.upkeep_page import backup_text
    from rnnlm.upkeep.backup import back_up

    backup = back_up(session.home, folder)
    session.print_result(backup_text(backup), backup.model_dump(mode="json"))


def restore_command(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What rnnlm backup wrote.")],
) -> None:
    """Restore a backup into an empty home.

    The home is RNNLM_HOME, also on another path or machine than before.

    RNNLM_HOME=/srv/rnnlm rnnlm restore /mnt/backup/rnnlm
    """
    show_warnings()
    from flows.operations.dead_runs import lock_restored_runs
    from rnnlm.reports.upkeep_page import restore_text
    from rnnlm.upkeep.restore import restore_home

    restored = restore_home(session.home, folder)
    lock_restored_runs(session.home)
    session.print_result(restore_text(restored), restored.model_dump(mode="json"))


add_command(APP, "prune", prune_command)
add_command(APP, "backup", backup_command)
add_command(APP, "restore", restore_command)
