"""Reads jobs.yaml and bad_inputs.yaml: `JOBS` has the steps of each job, and what is killed before."""

import os
import re
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


def written_out(value: Any, texts: dict[str, str]) -> Any:
    """Replace each $NAME in the texts of a job."""
    if isinstance(value, str):
        return re.sub(r"\$(\w+)", lambda found: written_out(texts[found[1]], texts), value)
    if isinstance(value, list):
        return [written_out(each, texts) for each in value]
    return value


def read_jobs() -> dict[str, dict[str, Any]]:
    """Return the jobs by name: `steps`, and for a run that is killed `killed` and `run`."""
    told = yaml.safe_load((HERE / "jobs.yaml").read_text())
    jobs: dict[str, dict[str, Any]] = {}
    for name, given in told["jobs"].items():
        for end in told["formats"] if "$format" in name else [""]:
            texts = {**told["texts"], "format": end}
            job = given if isinstance(given, dict) else {"steps": given}
            if "run" in job:
                job = {"steps": [f"{job['run']} --resume", "rankgrad evaluate run --json"], **job}
            jobs[written_out(name, texts)] = {key: written_out(value, texts) for key, value in job.items()}
    for kind, inputs in yaml.safe_load((HERE / "bad_inputs.yaml").read_text()).items():
        jobs[f"bad/{kind}"] = {"steps": inputs}
    if not Path(os.environ.get("RANKGRAD_DATA", "-"), "MQ2008").is_dir():
        del jobs["network/MQ2008"]
    return jobs


JOBS = read_jobs()
