//! What `GStreamer` looks for in the library.

use gst::{glib, prelude::*};

use crate::GiustoBwe;

fn init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    let names: &[&str] =
        if cfg!(feature = "rtpgccbwe") { &["rtpgccbwe", "giustobwe"] } else { &["giustobwe"] };
    names.iter().try_for_each(|name| {
        gst::Element::register(Some(plugin), name, gst::Rank::NONE, GiustoBwe::static_type())
    })
}

gst::plugin_define!(
    giusto,
    env!("CARGO_PKG_DESCRIPTION"),
    init,
    env!("CARGO_PKG_VERSION"),
    "MIT/X11",
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_NAME"),
    env!("CARGO_PKG_REPOSITORY")
);
