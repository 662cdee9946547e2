//! Path loss, antennas, shadowing and noise.
