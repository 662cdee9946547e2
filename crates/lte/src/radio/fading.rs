//! Fast fading.
