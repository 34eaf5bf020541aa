"""Log a run's scores, samples, losses and plots to MLflow; without MLflow the pipeline continues."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from rnnlm.home import find_home
from rnnlm.records import EvaluationRecord, LoggedRecord, RunRecord, SamplesRecord
from rnnlm.tracking.mlflow_runs import (
    log_loss_curve,
    log_losses,
    log_picture,
    log_samples,
    log_scores,
    run_url,
    send_rest,
    small_loss_curve,
)


@task(task_run_name="log results to MLflow", cache_policy=NO_CACHE)
def log_results(
    run: RunRecord, evaluation: EvaluationRecord, samples: SamplesRecord, pictures: tuple[Path, ...] = ()
) -> LoggedRecord:
    home = find_home()
    send_rest(home, run)
    log_scores(home, run, evaluation)
    log_samples(home, run, samples)
    log_losses(home, run)
    for picture in pictures:
        log_picture(home, run, picture)
    return LoggedRecord(
        loss_curve=log_loss_curve(home, run), small_loss_curve=small_loss_curve(run), run_url=run_url(home, run)
    )
