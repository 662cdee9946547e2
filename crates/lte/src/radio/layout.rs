//! Sites, sectors and wrap-around.
