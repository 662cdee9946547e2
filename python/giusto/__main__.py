"""The ``giusto`` command: ``python -m giusto``."""

import signal
import sys

from giusto import _giusto


def main() -> None:
    """Run the command with the words of the command line, and end the program with its status."""
    if sys.argv[1:2] == ["tune"]:
        # It needs Optuna, which is Python.
        from giusto import _tune_command

        sys.exit(_tune_command.main(sys.argv[2:]))
    if sys.argv[1:2] == ["paper"]:
        # It needs matplotlib.
        from giusto import _paper

        sys.exit(_paper.main(sys.argv[2:]))
    # The command has its own handler of Ctrl-C, and a closed pipe ends it quietly.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_giusto.main(["giusto", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
