"""Reports of prune, backup and restore: for the terminal, and as markdown for Prefect."""

from rnnlm.display.text_layout import TableRows, columns, labelled, markdown_table
from rnnlm.upkeep.backup import BackupRecord
from rnnlm.upkeep.backup_archive import Manifest
from rnnlm.upkeep.prune import PruneRecord
from rnnlm.upkeep.restore import RestoreRecord


def prune_text(pruned: PruneRecord) -> str:
    """For the terminal: a table, and the versions that are kept with the reason."""
    rows = prune_rows(pruned)
    if not rows:
        return "nothing in this home yet: rnnlm run"
    kept = [labelled("kept", f"{name}: {why}") for name, why in sorted(pruned.kept.items())]
    note = ["dry run: nothing was removed"] if pruned.dry_run else []
    return "\n".join([*columns(rows), *kept, *note])


def prune_report(pruned: PruneRecord) -> str:
    """Markdown."""
    rows = prune_rows(pruned)
    table = markdown_table(rows) if rows else "Nothing in this home yet."
    kept = [{"version": name, "kept because": why} for name, why in sorted(pruned.kept.items())]
    title = "Would be removed" if pruned.dry_run else "Removed"
    return "\n\n".join([f"## {title}", table, *([markdown_table(kept)] if kept else [])])


def prune_rows(pruned: PruneRecord) -> TableRows:
    goes = "would go" if pruned.dry_run else "removed"
    rows = [
        {
            "kind": total.kind,
            goes: total.removed_items,
            "size": size(total.removed_bytes),
            "kept": total.kept_items,
            "kept size": size(total.kept_bytes),
        }
        for total in pruned.totals
    ]
    databases = [
        {"kind": name, goes: "", "size": "", "kept": "", "kept size": size(count)}
        for name, count in pruned.database_bytes.items()
        if count
    ]
    if all(total.kind == "lock" for total in pruned.totals):  # this command's own
        return []
    whole = {
        "kind": "all",
        goes: sum(total.removed_items for total in pruned.totals),
        "size": size(sum(total.removed_bytes for total in pruned.totals)),
        "kept": sum(total.kept_items for total in pruned.totals),
        "kept size": size(sum(total.kept_bytes for total in pruned.totals) + sum(pruned.database_bytes.values())),
    }
    return [*rows, *databases, whole]


def backup_text(backup: BackupRecord) -> str:
    lines = [
        labelled("backup", str(backup.archive)),
        labelled("files", f"{backup.files:,}, {size(backup.bytes)}"),
        labelled("versions", f"{len(backup.versions)}"),
        *(labelled("damaged", f"{problem}; backed up as it is") for problem in backup.damaged),
        *(labelled("missing", what) for what in backup.not_covered),
    ]
    return "\n".join(lines)


def verified_text(manifest: Manifest, damaged: tuple[str, ...]) -> str:
    lines = [
        labelled("backup", f"made {manifest.made} of {manifest.homes[0]}"),
        labelled("files", f"{len(manifest.files):,}, {size(sum(file.bytes for file in manifest.files.values()))}"),
        labelled("versions", f"{len(manifest.versions)}"),
        *(labelled("damaged", name) for name in damaged),
        *([] if damaged else [labelled("verified", "every file has its sha256")]),
    ]
    return "\n".join(lines)


def restore_text(restored: RestoreRecord) -> str:
    lines = [
        labelled("home", str(restored.home)),
        labelled("backup", f"made {restored.made} of {restored.moved_from}"),
        labelled("files", f"{restored.files:,}, {size(restored.bytes)}"),
        *(labelled("left out", f"{name}: damaged in the backup") for name in restored.left_out),
        *(labelled("damaged", f"{problem}, when it was backed up") for problem in restored.damaged),
        labelled("next", "rnnlm deploy, if a Prefect server runs your nightly training"),
    ]
    return "\n".join(lines)


def size(count: int) -> str:
    """'3.1 MB'; one decimal, units of 1000."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
