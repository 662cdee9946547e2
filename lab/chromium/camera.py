"""A film for Chromium's fake camera. Its own pictures are too simple: VP8 makes about 0.5 Mbit/s of them.

A pattern moves across the picture, and every frame has noise of its own. At a high rate the noise costs whatever the
encoder may spend; at a low rate the quantiser removes it.
"""

import math
import pathlib
import random

WIDTH, HEIGHT, FRAMES_PER_SECOND = 640, 480, 20
# Frames until the film repeats; the pattern has then moved once round, so that no cut is seen.
FRAMES = 80
NOISE = 12


def write(path: pathlib.Path):
    """Writes the film as Y4M, 37 MB. The same bytes each time."""
    rows = [bytes(round(level(x, y)) for x in range(WIDTH)) for y in range(HEIGHT)]
    draw = random.Random(1)
    # Noise of a third of its samples, so that flat areas remain.
    noise = bytes(value % (NOISE + 1) if value < 86 else NOISE // 2 for value in range(256))
    chroma = bytes([118]) * (WIDTH * HEIGHT // 4) + bytes([136]) * (WIDTH * HEIGHT // 4)
    step = WIDTH // FRAMES
    with path.open("wb") as file:
        file.write(f"YUV4MPEG2 W{WIDTH} H{HEIGHT} F{FRAMES_PER_SECOND}:1 Ip A1:1 C420jpeg\n".encode())
        for frame in range(FRAMES):
            shift = frame * step
            luma = b"".join(row[shift:] + row[:shift] for row in rows)
            grain = draw.randbytes(len(luma)).translate(noise)
            # No sum is above 255, so that the bytes add up as one number.
            total = int.from_bytes(luma, "big") + int.from_bytes(grain, "big")
            file.write(b"FRAME\n" + total.to_bytes(len(luma), "big") + chroma)


def level(x, y):
    """The pattern without noise, 30 to 210."""
    turn = 2 * math.pi / WIDTH
    waves = math.sin(3 * turn * x + 2 * turn * y) + math.sin(11 * turn * x - 7 * turn * y) / 2
    return 120 + 60 * waves
