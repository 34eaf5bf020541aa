"""Simulate thirty nightly runs on a growing text with `rnnlm up` and `rnnlm schedule`, including kills.

    python benchmarks/nights.py TEXT [--nights 30] [--preset smoke] [--set FIELD=VALUE …] [--home FOLDER] [--json]

The n-th nightly run reads the first 40 % of TEXT, and a thirtieth of the rest for each earlier run. Every fifth run
reads the same text as the run before it. During one run, the process of the flow is killed with kill -9. During another
run, every process of the rnnlm home is killed, which simulates a power failure. After every seventh run, `rnnlm prune`
is called, as in the weekly deployment. The table has a row per run with the seconds from the trigger to the final
state, whether the model became champion, its bits per byte on the test split, and the size of the home. The exit code
is 1 if a nightly run has no result, a run is left unfinished, or a registered champion cannot be loaded.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from flows.operations.home_servers import RunningHome, home_password, read_running
from flows.operations.prefect_query import PrefectQuery
from flows.service.home_processes import find_home_processes
from flows.service.status import disk_bytes
from rnnlm.display.text_layout import columns
from rnnlm.runtime.polling import poll_until
from rnnlm.runtime.ports import free_port
from rnnlm.storage.home import Home

NAME = "growing"
PATIENCE_SECONDS = 1800
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--preset", default="smoke")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--home", type=Path, help="an empty folder; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rnnlm-nights-") as temporary:
        nights = Nights(Home((options.home or Path(temporary) / "home").resolve()), Path(temporary) / f"{NAME}.txt")
        try:
            rows = nights.run(options)
            problems = nights.problems(rows)
        finally:
            nights.end()
    print(json.dumps(rows) if options.json else "\n".join(columns(rows)))
    print("\n".join(problems) or "nothing lost: every night has its result, every run is final, the champion loads")
    return 1 if problems else 0


class Nights:
    def __init__(self, home: Home, text: Path) -> None:
        self.home = home
        self.text = text
        self.ports = ["--port", str(free_port()), "--mlflow-port", str(free_port())]
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
        self.environment["RNNLM_HOME"] = str(home.root)

    def rnnlm(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "flows.command_line", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"rnnlm {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self) -> None:
        self.rnnlm("up", "--detach", *self.ports)

    def run(self, options: argparse.Namespace) -> list[dict[str, Any]]:
        lines = options.text.read_text(encoding="utf-8").splitlines(keepends=True)
        self.write_text(lines, 0, options.nights)
        self.up()
        settings = [part for override in options.overrides for part in ("--set", override)]
        self.rnnlm(
            "schedule", "--corpus", str(self.text), "--name", NAME, "--cron", "0 0 1 1 *", "--preset", options.preset,
            *settings,
        )  # fmt: skip
        rows = []
        for night in range(options.nights):
            self.write_text(lines, night, options.nights)
            accident = {options.nights // 3: "kill -9", 2 * options.nights // 3: "power cut"}.get(night, "")
            rows.append(self.night(night, accident))
            if night % 7 == 6:
                # Recent items are pruned, too, because all simulated nightly runs are within the same hour.
                self.rnnlm("prune", "--days", "0", "--recent-hours", "0")
                rows[-1]["MB"] = f"{rows[-1]['MB']} → {self.megabytes()}"
            print(rows[-1], file=sys.stderr, flush=True)
        return rows

    def write_text(self, lines: list[str], night: int, nights: int) -> None:
        """Write the text of a nightly run. Every fifth run has the text of the run before it."""
        night = night - 1 if night % 5 == 4 else night
        self.text.write_text("".join(lines[: int(len(lines) * (0.4 + 0.6 * night / nights))]), encoding="utf-8")

    def night(self, night: int, accident: str) -> dict[str, Any]:
        versions = len(self.versions())
        began = time.monotonic()
        deployment = json.loads(self.rnnlm("trigger", NAME, "--json"))["deployment"]
        if accident:
            self.wait(lambda: self.history_bytes() > 0, "training")
            self.strike(accident, deployment)
        state = self.wait_for_end(deployment)
        found = self.versions()
        new = found[0] if len(found) > versions else None
        return {
            "night": night + 1,
            "text, MB": f"{self.text.stat().st_size / 1e6:.2f}",
            "seconds": f"{time.monotonic() - began:.0f}",
            "accident": accident,
            "state": state,
            "model": "unchanged" if new is None else "champion" if self.was_promoted(new) else "challenger",
            "bits/byte": f"{found[0]['bits_per_byte']:.3f}",
            "MB": self.megabytes(),
        }

    def strike(self, accident: str, deployment: str) -> None:
        """Kill the flow's process and trigger `settle`, or kill all processes of the home and run `rnnlm up`."""
        found = find_home_processes(self.home)
        killed = list(found.flow_runs.values())
        if accident == "power cut":
            killed += [psutil.Process(self.running().pid), *found.services]
        for process in killed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(killed, timeout=10)
        if accident == "power cut":
            self.up()
        else:
            self.wait(lambda: "CRASHED" in self.states(deployment), "report of the worker that the process has ended")
            self.rnnlm("trigger", "settle")  # Run the `settle` flow, which runs every 30 minutes in production.

    def running(self) -> RunningHome:
        running = read_running(self.home)
        assert running is not None
        return running

    def prefect(self) -> PrefectQuery:
        return PrefectQuery(self.running().prefect_api, home_password(self.home))

    def wait_for_end(self, deployment: str) -> str:
        """Wait until the deployment's newest run is final and no run waits to start. Return the newest run's state."""
        states: list[str] = []

        def ended() -> bool:
            states[:] = self.states(deployment)
            # A crashed run is not final, because rnnlm starts it again.
            return states != [] and set(states) <= FINAL and states[0] != "CRASHED"

        self.wait(ended, f"end of {deployment}")
        return states[0]

    def states(self, deployment: str) -> list[str]:
        """Return the states of the deployment's runs, the newest first, without runs that are only planned."""
        named = {"name": {"any_": [deployment.partition("/")[2]]}}
        runs = self.prefect().post("flow_runs/filter", deployments=named, sort="EXPECTED_START_TIME_DESC")
        return [run["state"]["type"] for run in runs if "auto-scheduled" not in run["tags"]]

    def wait(self, condition: Any, what: str) -> None:
        # The connection may fail while the server restarts.
        if not poll_until(condition, PATIENCE_SECONDS, ignored=httpx.TransportError):
            raise SystemExit(f"no {what} within {PATIENCE_SECONDS} s; the log ends:\n{self.rnnlm('logs', '-n', '30')}")

    def history_bytes(self) -> int:
        """Return the total size in bytes of the unfinished runs' training histories, which grows during training."""
        return sum(
            path.stat().st_size
            for path in self.home.runs.glob("*/history.jsonl")
            if not (path.parent / "COMPLETE").exists()
        )

    def versions(self) -> list[dict[str, Any]]:
        return list(json.loads(self.rnnlm("models", "--json")))

    def was_promoted(self, version: dict[str, Any]) -> bool:
        return "champion" in version["aliases"]

    def megabytes(self) -> str:
        return f"{disk_bytes(self.home)['all'] / 1e6:.0f}"

    def problems(self, rows: list[dict[str, Any]]) -> list[str]:
        found = [f"night {row['night']}: {row['state']}" for row in rows if row["state"] != "COMPLETED"]
        unfinished = {"state": {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}}
        for run in self.prefect().post("flow_runs/filter", flow_runs=unfinished):
            found.append(f"flow run {run['name']} is left {run['state']['name']}")
        if not json.loads(self.rnnlm("generate", f"rnnlm-{NAME}", "--json")):
            found.append("the champion generates nothing")
        return found

    def end(self) -> None:
        self.rnnlm("down")


if __name__ == "__main__":
    sys.exit(main())
