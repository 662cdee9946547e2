//! How the sender of `gcc:remb` behaves.

use super::*;
