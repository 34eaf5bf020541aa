"""Compute the next times of a schedule as Prefect's scheduler does, and refuse schedules that Prefect cannot run.

Prefect accepts some of these schedules. For example, Prefect's scheduler stops at a day that no month has, and reads a
sixth field as seconds.
"""

import asyncio
from datetime import datetime
from typing import Any

from rnnlm.errors import ConfigError

TIMES_SHOWN = 5
EVERY_DAY = "every day at 02:00 is '0 2 * * *'"


def next_times(schedule: dict[str, Any], count: int = 1) -> list[datetime]:
    """Return the next times of a schedule, which has the format of Prefect's API. Importing Prefect takes a second.

    Raise ValueError or LookupError if Prefect cannot compute them.
    """
    from prefect.server.schemas.schedules import SCHEDULE_TYPES
    from pydantic import TypeAdapter

    return list(asyncio.run(TypeAdapter(SCHEDULE_TYPES).validate_python(schedule).get_dates(count)))


def soonest_time(deployment: dict[str, Any]) -> datetime | None:
    """Return the next time of the deployment's active schedules, or None if the deployment is paused or never runs."""
    found = []
    for timing in deployment["schedules"]:
        if timing["active"] and not deployment["paused"]:
            try:
                found += next_times(timing["schedule"])
            # Prefect cannot run this schedule, which the UI or an earlier version of rnnlm may have created.
            except (ValueError, LookupError):
                continue
    return min(found, default=None)


def planned_times(cron: str, timezone: str) -> list[datetime]:
    """Return the next five times of a schedule.

    Raise ConfigError if `cron` is not a cron line, if `timezone` is not a time zone, or if the time never comes.
    """
    from prefect.client.schemas.schedules import CronSchedule
    from pydantic import ValidationError

    wrong_zone = ConfigError(f"--timezone {timezone!r}: expected a name such as Europe/Berlin")
    fields = len(cron.split())
    if fields != 5 and not cron.startswith("@"):
        raise ConfigError(
            f"--cron {cron!r}: expected five fields (minute, hour, day, month, weekday), got {fields}; {EVERY_DAY}"
        )
    # "localtime" is refused, because most systems have such a file next to the time zones, with a different zone on
    # each machine.
    if timezone in ("", "localtime"):
        raise wrong_zone
    try:
        return next_times(CronSchedule(cron=cron, timezone=timezone).model_dump(), TIMES_SHOWN)
    except ValidationError as error:
        if error.errors()[0]["loc"][:1] == ("timezone",):
            raise wrong_zone from None
        raise ConfigError(f"--cron {cron!r}: expected minute, hour, day, month and weekday; {EVERY_DAY}") from None
    except LookupError:  # A file of this name lies next to the time zones, but is not a time zone.
        raise wrong_zone from None
    except ValueError:
        raise ConfigError(f"--cron {cron!r}: this day never comes; {EVERY_DAY}") from None


def local_time(moment: str | datetime) -> str:
    """Return a local time such as `11-28 02:00`, with the year unless it is the current one."""
    local = (datetime.fromisoformat(moment) if isinstance(moment, str) else moment).astimezone()
    return f"{local:%m-%d %H:%M}" if local.year == datetime.now().year else f"{local:%Y-%m-%d %H:%M}"
