//! Properties.

use std::sync::LazyLock;

use giusto_congestion::Limits;
use giusto_units::DataRate;
use gst::{glib, prelude::*};

giusto_units::defaults! {
    /// What the application sets. The defaults of the rates are those of `rtpgccbwe`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct Settings {
        pub(super) controller: String = "tempo".to_owned(),
        pub(super) start_bitrate: u32 = 2_048_000,
        pub(super) min_bitrate: u32 = 1_000,
        pub(super) max_bitrate: u32 = 8_192_000,
    }
}

impl Settings {
    /// As the controller takes them.
    pub(super) fn limits(&self) -> Limits {
        let rate = |bitrate: u32| DataRate::from_bps(u64::from(bitrate));
        Limits::DEFAULT
            .with_min(rate(self.min_bitrate))
            .with_start(rate(self.start_bitrate))
            .with_max(rate(self.max_bitrate))
            .ordered()
    }
}

/// The properties of the element.
pub(super) fn properties() -> &'static [glib::ParamSpec] {
    static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
        let defaults = Settings::default();
        let bitrate = |name, nick, blurb, default| {
            let spec = glib::ParamSpecUInt::builder(name).nick(nick).blurb(blurb);
            spec.minimum(1).default_value(default)
        };
        vec![
            bitrate(
                "estimated-bitrate",
                "Estimated bit rate",
                "Target of all encoders together, in bit/s, RTP headers included. Set it before the start to choose the start rate",
                defaults.start_bitrate,
            )
            .mutable_ready()
            .build(),
            bitrate(
                "min-bitrate",
                "Minimum bit rate",
                "Lowest estimated-bitrate, in bit/s",
                defaults.min_bitrate,
            )
            .mutable_playing()
            .build(),
            bitrate(
                "max-bitrate",
                "Maximum bit rate",
                "Highest estimated-bitrate, in bit/s",
                defaults.max_bitrate,
            )
            .mutable_playing()
            .build(),
            glib::ParamSpecString::builder("controller")
                .nick("Controller")
                .blurb("Name of the congestion controller, such as tempo, scream:v2 or gcc:libwebrtc")
                .default_value(Some(defaults.controller.as_str()))
                .mutable_ready()
                .build(),
            glib::ParamSpecBoxed::builder::<gst::Structure>("stats")
                .nick("Statistics")
                .blurb("Rates in bit/s, sizes in bytes, times in ns, the latest decision in words")
                .read_only()
                .build(),
        ]
    });
    PROPERTIES.as_ref()
}
