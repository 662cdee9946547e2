//! SCReAM of draft-ietf-ccwg-rfc8298bis-screamv2-01.
