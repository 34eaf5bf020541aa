"""The reports that `rnnlm prune`, `rnnlm backup` and `rnnlm restore` write."""

from rnnlm.display.text_layout import TableRows, columns, fact_lines
from rnnlm.extensions.upkeep.backup import BackupRecord
from rnnlm.extensions.upkeep.backup_archive import Manifest
from rnnlm.extensions.upkeep.prune import PruneRecord
from rnnlm.extensions.upkeep.restore import RestoreRecord
from rnnlm.reports.page import Page

NOTHING = "nothing in this home yet; rnnlm run trains a first model"


def prune_text(pruned: PruneRecord) -> str:
    """Return a table for the terminal, followed by the kept versions and the reasons."""
    rows = prune_rows(pruned)
    if not rows:
        return NOTHING
    kept = fact_lines({"kept": [f"{name}: {why}" for name, why in sorted(pruned.kept.items())]})
    note = ["dry run: nothing was removed"] if pruned.dry_run else []
    return "\n".join([*columns(rows), *kept, *note])


def prune_report(pruned: PruneRecord) -> str:
    """Return the Markdown report about the items that were kept and removed."""
    rows = prune_rows(pruned)
    kept = [{"version": name, "kept because": why} for name, why in sorted(pruned.kept.items())]
    title = "Would be removed" if pruned.dry_run else "Removed"
    return Page(title, tables={"": rows, "Kept versions": kept}, note="" if rows else NOTHING).markdown()


def prune_rows(pruned: PruneRecord) -> TableRows:
    """Return a row for each kind of item, for each database and for the total.

    Return no rows if the rnnlm home contains only the lock of this command.
    """
    if all(total.kind == "lock" for total in pruned.totals):
        return []
    goes = "would go" if pruned.dry_run else "removed"

    def row(kind: str, removed: object, removed_size: str, kept: object, kept_bytes: int) -> dict[str, object]:
        return {"kind": kind, goes: removed, "size": removed_size, "kept": kept, "kept size": size(kept_bytes)}

    totals = pruned.totals
    kinds = [
        row(total.kind, total.removed_items, size(total.removed_bytes), total.kept_items, total.kept_bytes)
        for total in totals
    ]
    databases = [row(name, "", "", "", count) for name, count in pruned.database_bytes.items() if count]
    whole = row(
        "all",
        sum(total.removed_items for total in totals),
        size(sum(total.removed_bytes for total in totals)),
        sum(total.kept_items for total in totals),
        sum(total.kept_bytes for total in totals) + sum(pruned.database_bytes.values()),
    )
    return [*kinds, *databases, whole]


def backup_text(backup: BackupRecord) -> str:
    facts = {
        "backup": backup.archive,
        "files": f"{backup.files:,}, {size(backup.bytes)}",
        "versions": len(backup.versions),
        "damaged": backup.damaged,
        "missing": backup.not_covered,
    }
    return "\n".join(fact_lines(facts))


def verified_text(manifest: Manifest, damaged: tuple[str, ...]) -> str:
    facts = {
        "backup": f"made {manifest.made} of {manifest.homes[0]}",
        "files": f"{len(manifest.files):,}, {size(sum(file.bytes for file in manifest.files.values()))}",
        "versions": len(manifest.versions),
        "damaged": damaged,
        "verified": "" if damaged else "every file has its sha256",
    }
    return "\n".join(fact_lines(facts))


def restore_text(restored: RestoreRecord) -> str:
    facts = {
        "home": restored.home,
        "backup": f"made {restored.made} of {restored.moved_from}",
        "files": f"{restored.files:,}, {size(restored.bytes)}",
        "left out": [f"{name}: damaged in the backup" for name in restored.left_out],
        "damaged": [f"{problem}, when it was backed up" for problem in restored.damaged],
        "next": "rnnlm deploy, if a Prefect server runs your nightly training",
    }
    return "\n".join(fact_lines(facts))


def size(count: int) -> str:
    """Return a size such as '3.1 MB', with one decimal and units of 1000."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
