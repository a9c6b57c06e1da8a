"""Run many tasks at the same time, for experiments, searches and `AutoRanker`.

- `process_pool` runs tasks in processes of this machine; `ray_pool` runs them on a Ray cluster.
- `parent_watch` ends a worker process when its parent process has ended.
"""
