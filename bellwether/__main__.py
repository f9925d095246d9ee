"""`python -m bellwether`: the same as the `bellwether` command."""

from bellwether.cli import main

main(prog_name="bellwether")
