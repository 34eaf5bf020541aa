"""Remove items that an rnnlm home no longer needs, and back it up: prune, backup and restore."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.command import Session
from flows.commands.option_groups import fields
from flows.operations.home_servers import read_running
from flows.operations.run_locks import lock_restored_runs, oldest_living_run
from rnnlm.errors import HomeError
from rnnlm.extensions.upkeep.archive_checks import check_manifest
from rnnlm.extensions.upkeep.backup_archive import find_archive_damage, read_manifest
from rnnlm.extensions.upkeep.retention_config import RetentionConfig
from tasks.operations.registry_turn import registry_turn

HEADING = "Servers"


def prune_command(
    session: Session,
    config: Annotated[RetentionConfig, fields("versions", "champions", "datasets", "days", "recent_hours", "dry_run")],
) -> None:
    """Remove what is no longer needed.

    Versions with an alias, the champions for rollbacks, and everything from which they were made are kept. Old
    caches are removed, because they can be made again. Prune may run during training, whose files are kept.

    rnnlm prune --dry-run
    rnnlm prune --versions 10 --days 90
    """
    from flows.operations.prefect_history import remove_old_flow_runs
    from rnnlm.extensions.upkeep.prune import prune_home
    from rnnlm.extensions.upkeep.upkeep_page import prune_text

    if not config.dry_run:
        remove_old_flow_runs(session.home, config.days)
    with registry_turn(session.home):
        pruned = prune_home(session.home, config, oldest_living_run(session.home))
    session.print_result(prune_text(pruned), pruned)


def backup_command(
    session: Session,
    place: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder for the backup. With --verify, it is the backup file to check."),
    ],
    verify: Annotated[bool, typer.Option("--verify", help="Only check the sha256 of every file in a backup.")] = False,
) -> None:
    """Back up registry, metrics, registered models and corpora.

    A backup can be made at any time, even during training. Each backup is one new, self-contained file in the folder.
    It includes the datasets and runs of registered versions and Prefect's database, but no unfinished runs and caches.

    rnnlm backup /mnt/backup/rnnlm
    """
    if verify:
        verify_backup(session, place)
        return
    from rnnlm.extensions.upkeep.backup import back_up
    from rnnlm.extensions.upkeep.upkeep_page import backup_text

    running = read_running(session.home)
    backup = back_up(session.home, place, running.prefect_api if running else None)
    session.print_result(backup_text(backup), backup)
    if backup.damaged:
        raise HomeError(
            f"{session.home.root}: {len(backup.damaged)} files were damaged or missing, first: {backup.damaged[0]};\n"
            "the backup contains what could be read. Keep an earlier backup."
        )


def verify_backup(session: Session, archive: Path) -> None:
    """Print the contents of the archive. Raise HomeError if one of its files is damaged."""
    from rnnlm.extensions.upkeep.upkeep_page import verified_text

    manifest = read_manifest(archive)
    check_manifest(manifest, archive, archive.stat().st_size)
    damaged = find_archive_damage(archive, manifest)
    facts = manifest.model_dump(mode="json", include={"made", "rnnlm", "versions"})
    session.print_result(verified_text(manifest, damaged), {**facts, "damaged": damaged})
    if damaged:
        raise HomeError(
            f"{archive}: {len(damaged)} of {len(manifest.files):,} files differ from their sha256;\n"
            "restore another backup, or the rest of this one: rnnlm restore"
        )


def restore_command(
    session: Session,
    archive: Annotated[Path, typer.Argument(metavar="BACKUP", help="Backup file that rnnlm backup wrote.")],
) -> None:
    """Restore a backup into an empty home.

    The home is the folder RNNLM_HOME, which may differ from the original path and machine. Files that are damaged in
    the backup are left out and listed, and the command then ends with an error.

    RNNLM_HOME=/srv/rnnlm rnnlm restore /mnt/backup/rnnlm/20261124T230000Z-1a2b3c4d.rnnlm-backup.tar
    """
    from rnnlm.extensions.upkeep.restore import restore_home
    from rnnlm.extensions.upkeep.upkeep_page import restore_text

    restored = restore_home(session.home, archive)
    lock_restored_runs(session.home)
    session.print_result(restore_text(restored), restored)
    if problems := (*restored.left_out, *restored.damaged):
        raise HomeError(
            f"{session.home.root}: {len(problems)} files are damaged or missing, first: {problems[0]};\n"
            "commands that need these files will fail; restore another backup, or run the stages again that wrote them"
        )
