"""The figures of `giusto.plot`. Importing this loads matplotlib."""

from __future__ import annotations

import io

from matplotlib.figure import Figure as _Figure


class Figure(_Figure):
    """A figure that a notebook shows where it is the value of a cell, also without pyplot."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=120)
        return picture.getvalue()
