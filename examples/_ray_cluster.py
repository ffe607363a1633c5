"""How the examples on Ray join a cluster."""

import logging
import os
import warnings

import ray


def start_ray() -> None:
    """Join the cluster that runs this, or start one on this machine, and keep it quiet."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # It forks this process only to start others, in which nothing of the engine runs.
    warnings.filterwarnings("ignore", message="lance(db)? (is not|fork)")
    ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
