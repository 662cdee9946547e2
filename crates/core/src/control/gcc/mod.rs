//! Google Congestion Control, of draft-ietf-rmcat-gcc-02 and of libwebrtc.

pub mod delay;
