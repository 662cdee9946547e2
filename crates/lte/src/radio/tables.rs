//! CQI, MCS and transport block sizes.
