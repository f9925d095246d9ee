"""`python -m bellwether` runs the `bellwether` command."""

from cli.main import main

if __name__ == "__main__":
    main(prog_name="bellwether")
