"""Names that this program gives to things of Prefect's server."""

WORK_POOL = "rnnlm"  # as in prefect.yaml
OWN_SCHEDULE = "own-schedule"  # tag of a deployment that `rnnlm schedule` has made
