"""python -m pgqueue: the command line."""

from pgqueue.cli.main import main

if __name__ == "__main__":
    main(prog_name="pgqueue")
