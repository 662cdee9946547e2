"""Standard output of the commands that are Python."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def show(text: str) -> None:
    """Print the text at once. The program ends with 1 where it cannot be written, and with 0 at a closed pipe."""
    try:
        print(text, flush=True)
    except OSError as error:
        # What is buffered is not tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(0) from None
        print(f"error: standard output cannot be written: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None


class Parser(argparse.ArgumentParser):
    """A parser whose help, where it cannot be written, is a failure."""

    def print_help(self, file: Any = None) -> None:
        """Print the help."""
        if file is None:
            show(self.format_help().rstrip())
        else:
            super().print_help(file)
