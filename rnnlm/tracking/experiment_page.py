"""How MLflow's page shows an experiment: on training runs, with their perplexity in the list."""

import json

TRAINING_VIEW = "workflowType=machine_learning"  # query of addresses: without it the UI opens on pages for chat models
VIEW = "rnnlm"  # name of the shared view
COLUMNS = ("attributes.`Duration`", "metrics.`test_perplexity`", "metrics.`test_bits_per_byte`", "params.`preset`")
# What MLflow 3.17's page stores when a person shares a view; by default its list has no metrics.
STATE = {
    "searchFilter": "",
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "selectedColumns": COLUMNS,
    "runsExpanded": {},
    "runsPinned": [],
    "runsHidden": [],
    "runsVisibilityMap": {},
    "compareRunCharts": None,
    "compareRunSections": None,
    "viewMaximized": True,
    "runListHidden": False,
    "isAccordionReordered": False,
    "groupBy": None,
    "groupsExpanded": {},
    "useGroupedValuesInCharts": True,
    "autoRefreshEnabled": False,
    "hideEmptyCharts": True,
    "globalLineChartConfig": {},
    "chartsSearchFilter": "",
}
RUN_LIST_VIEW = f"viewStateShareKey={VIEW}&{TRAINING_VIEW}"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    f"mlflow.sharedViewState.{VIEW}": json.dumps(STATE),
}
