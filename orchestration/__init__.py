"""Parts of the Dagster project that all domains share, and the processes that execute runs."""

import warnings

# By message: the command line imports this package without Dagster.
warnings.filterwarnings("ignore", message=r".* is currently in (beta|preview),")
