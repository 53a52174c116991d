"""lm_eval with the tasks of --include_path alone: reading the thousands that it brings takes most of its time.

Run by the harness's own Python: `own_tasks.py [arguments of lm_eval]`.
"""

import functools

from lm_eval.__main__ import cli_evaluate
from lm_eval.tasks import TaskManager

TaskManager.__init__ = functools.partialmethod(TaskManager.__init__, include_defaults=False)
cli_evaluate()
