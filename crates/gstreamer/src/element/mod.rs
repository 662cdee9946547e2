//! The element `giustobwe`.

mod imp;
mod settings;

use gst::glib;

glib::wrapper! {
    /// Congestion control and pacing in front of `rtpsession`, `rtpbin` or, as its auxiliary sender, `webrtcbin`.
    pub struct GiustoBwe(ObjectSubclass<imp::GiustoBwe>) @extends gst::Element, gst::Object;
}
