"""What all domains share of Dagster."""

import warnings

# Dagster's classes of warnings are not imported for this: the command line imports this package before it needs Dagster.
warnings.filterwarnings("ignore", message=r".* is currently in (beta|preview),")
