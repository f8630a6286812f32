"""`swmodel` and `python -m swmodel`. Signal handlers are set first, because importing everything else takes seconds."""

from .runtime.signals import PROCESS


def main() -> None:
    """Run the command line; ends the process."""
    PROCESS.start()
    from .cli import main

    main()


if __name__ == "__main__":
    main()
