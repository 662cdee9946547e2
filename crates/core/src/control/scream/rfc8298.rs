//! SCReAM of RFC 8298.
