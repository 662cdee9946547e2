//! The table of all controllers. Adding a controller adds one row.

use alloc::boxed::Box;

#[cfg(feature = "thesis")]
use crate::gcc::thesis::ThesisController;
use crate::{
    bbr::{self, Bbr},
    constants::{Setter, Tunable},
    copa::{self, Copa},
    entry::Entry,
    fixed::Fixed,
    gcc::{
        draft::{self, Draft},
        libwebrtc::{self, Libwebrtc},
        receive_side,
        receiver_driven::{self, ReceiverDriven},
    },
    limits::Options,
    nada::{self, Nada},
    requirements::{PacerSettings, Requirements},
    scream::{
        d00::{self, ScreamD00},
        rfc8298::{self, ScreamRfc8298},
        v2::{self, ScreamV2},
    },
    tempo::{self, Tempo},
};

/// Why building a preset cannot fail, whatever constants are set. Tests build each preset, and with constants from all of their ranges.
const PRESET_IS_VALID: &str = "the constants of a preset, and those that can be set, are within their ranges";

/// In the order of lists.
pub(crate) static TABLE: &[Entry] = &[
    Entry {
        name: "fixed",
        summary: "constant rate, the baseline",
        requirements: Fixed::REQUIREMENTS,
        build: &|limits, _, set| {
            let mut share = 1.0;
            set.number(&mut share, "share", 0.01..=4.0, "target rate, as a share of the start rate");
            Box::new(Fixed::with_share(share, limits))
        },
    },
    Entry {
        name: "gcc:libwebrtc",
        summary: "Google Congestion Control as in libwebrtc",
        requirements: Libwebrtc::REQUIREMENTS,
        build: &|limits, options, set| {
            Box::new(new_libwebrtc(libwebrtc::Config::within(limits), options, set))
        },
    },
    Entry {
        name: "gcc:libwebrtc+giusto",
        summary: "gcc:libwebrtc, with a higher loss tolerance, single-packet pacing and a reaction to full queues",
        requirements: Requirements { pacer: PacerSettings::SINGLE, ..Libwebrtc::REQUIREMENTS },
        build: &|limits, options, set| {
            Box::new(new_libwebrtc(libwebrtc::Config::giusto(limits), options, set))
        },
    },
    Entry {
        name: "gcc:draft-02",
        summary: "Google Congestion Control as in draft-ietf-rmcat-gcc-02",
        requirements: Draft::REQUIREMENTS,
        build: &|limits, _, set| {
            Box::new(Draft::new(tuned(draft::Config::within(limits), set)).expect(PRESET_IS_VALID))
        },
    },
    Entry {
        name: "gcc:draft-02+giusto",
        summary: "gcc:draft-02, with the delay trend amplified as in implementations",
        requirements: Draft::REQUIREMENTS,
        build: &|limits, _, set| {
            Box::new(Draft::new(tuned(draft::Config::giusto(limits), set)).expect(PRESET_IS_VALID))
        },
    },
    Entry {
        name: "gcc:remb",
        summary: "receiver-side Google Congestion Control: the receiver's estimate, bounded by losses",
        requirements: ReceiverDriven::REQUIREMENTS,
        build: &|limits, _, set| {
            Box::new(ReceiverDriven::new(tuned(receiver_driven::Config::within(limits), set)))
        },
    },
    Entry {
        name: "gcc:rmcat-02",
        summary: "receiver-side Google Congestion Control of February 2014, as in draft-alvestrand-rmcat-congestion-02",
        requirements: ReceiverDriven::REQUIREMENTS,
        build: &|limits, _, set| {
            Box::new(ReceiverDriven::new(tuned(receiver_driven::Config::rmcat_02(limits), set)))
        },
    },
    #[cfg(feature = "thesis")]
    Entry {
        name: "gcc:thesis",
        summary: "gcc:draft-02 as simulated in a thesis of 2017",
        requirements: ThesisController::REQUIREMENTS,
        build: &|limits, _, _| Box::new(ThesisController::within(limits)),
    },
    Entry {
        name: "bbr",
        summary: "BBR version 3, its pacing rate as a media rate",
        requirements: Bbr::REQUIREMENTS,
        build: &|limits, _, set| Box::new(Bbr::new(tuned(bbr::Config::within(limits), set))),
    },
    Entry {
        name: "copa",
        summary: "Copa (NSDI 2018), its window as a media rate",
        requirements: Copa::REQUIREMENTS,
        build: &|limits, _, set| Box::new(Copa::new(tuned(copa::Config::within(limits), set))),
    },
    Entry {
        name: "nada",
        summary: "NADA as in RFC 8698",
        requirements: Nada::REQUIREMENTS,
        build: &|limits, options, set| Box::new(new_nada(&nada::Config::within(limits), options, set)),
    },
    Entry {
        name: "nada:ns3",
        summary: "NADA as in its authors' ns-3 module, 2020",
        requirements: Nada::AT_SENDER,
        build: &|limits, options, set| Box::new(new_nada(&nada::Config::ns3(limits), options, set)),
    },
    Entry {
        name: "scream:rfc8298",
        summary: "SCReAM as in RFC 8298",
        requirements: ScreamRfc8298::REQUIREMENTS,
        build: &|limits, options, set| {
            Box::new(new_rfc8298(tuned(rfc8298::Config::within(limits), set), options))
        },
    },
    Entry {
        name: "scream:rfc8298+giusto",
        summary: "scream:rfc8298, with a window that follows the received rate",
        requirements: ScreamRfc8298::REQUIREMENTS,
        build: &|limits, options, set| {
            Box::new(new_rfc8298(tuned(rfc8298::Config::giusto(limits), set), options))
        },
    },
    Entry {
        name: "scream:d00",
        summary: "SCReAM as in draft-johansson-rmcat-scream-cc-00",
        requirements: ScreamD00::REQUIREMENTS,
        build: &|limits, options, set| Box::new(new_d00(tuned(d00::Config::within(limits), set), options)),
    },
    Entry {
        name: "scream:d00+giusto",
        summary: "scream:d00, with a window that follows the received rate, and a lower rate at a loss",
        requirements: ScreamD00::REQUIREMENTS,
        build: &|limits, options, set| Box::new(new_d00(tuned(d00::Config::giusto(limits), set), options)),
    },
    Entry {
        name: "scream:v2",
        summary: "SCReAM as in draft-ietf-ccwg-rfc8298bis-screamv2-01",
        requirements: ScreamV2::REQUIREMENTS,
        build: &|limits, options, set| {
            let within = if options.authors_laws { v2::Config::authors } else { v2::Config::within };
            let mut config = tuned(within(limits), set);
            config.delay.target = options.delay_target.unwrap_or(config.delay.target);
            Box::new(ScreamV2::new(config))
        },
    },
    Entry {
        name: "tempo",
        summary: "our own: a model of the path, one law each for growth, queues, rivals, losses and marks",
        requirements: Tempo::REQUIREMENTS,
        build: &|limits, _, set| Box::new(Tempo::new(tuned(tempo::Config::within(limits), set))),
    },
];

/// The estimator at the receiver for which the controller of this name was designed.
pub(crate) fn receive_side(name: &str) -> receive_side::Config {
    if name == "gcc:rmcat-02" || name.starts_with("gcc:rmcat-02+") {
        receive_side::Config::rmcat_02()
    } else {
        receive_side::Config::libwebrtc()
    }
}

/// The configuration with the constants that are wanted.
fn tuned<C: Tunable>(mut config: C, set: &mut Setter) -> C {
    config.constants(set);
    config
}

fn new_libwebrtc(config: libwebrtc::Config, options: Options, set: &mut Setter) -> Libwebrtc {
    let mut config = tuned(config, set);
    config.probing.probe_while_limited = options.probe_while_limited;
    Libwebrtc::new(config).expect(PRESET_IS_VALID)
}

fn new_nada(config: &nada::Config, options: Options, set: &mut Setter) -> Nada {
    let mut config = tuned(*config, set);
    let given = options.priority.unwrap_or(config.priority);
    config.priority = if given.is_finite() && given > 0.0 { given } else { config.priority };
    Nada::new(config)
}

fn new_rfc8298(mut config: rfc8298::Config, options: Options) -> ScreamRfc8298 {
    config.delay_target = options.delay_target.unwrap_or(config.delay_target);
    config.max_delay_target = config.max_delay_target.max(config.delay_target);
    ScreamRfc8298::new(config)
}

fn new_d00(mut config: d00::Config, options: Options) -> ScreamD00 {
    config.delay_target = options.delay_target.unwrap_or(config.delay_target);
    config.max_delay_target = config.max_delay_target.max(config.delay_target);
    ScreamD00::new(config)
}
