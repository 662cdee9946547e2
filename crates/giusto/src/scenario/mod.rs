//! Scenarios: links, flows, timed changes and expectations, as data.
//!
//! A scenario is read from a TOML file ([`Document`]) or made by a [`Builder`]. Both return a [`Scenario`] only if it is valid,
//! and otherwise report every problem found. A file with a `[city]` table holds a [`CityScenario`]. `docs/reference/scenario.md` lists every key.
//!
//! # Example
//!
//! ```
//! use giusto::scenario::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     duration = "10 s"
//!     [[link]]
//!     id = "wire"
//!     from = "here"
//!     to = "there"
//!     rate = "1 Mbit/s"
//!     [[flow]]
//!     id = "voice"
//!     kind = "cbr"
//!     rate = "64 kbit/s"
//!     size = "200 B"
//!     "#,
//!     "voice.toml",
//! )?;
//! assert_eq!(scenario.flows().len(), 1);
//!
//! let message = Scenario::parse("duration = \"10\"", "voice.toml").unwrap_err().to_string();
//! assert!(message.starts_with("voice.toml:1: duration: \"10\": duration needs one of the units"), "{message}");
//! # Ok::<(), giusto::scenario::ScenarioError>(())
//! ```

// Modules use only those before them in this order: error, setting, lesson, expectation, media, model, city, monitor, change, trace, read and keys,
// validate, builder, document.
mod builder;
mod change;
mod city;
mod controllers;
mod document;
pub(crate) mod error;
mod expectation;
pub(crate) mod keys;
mod lesson;
mod media;
mod model;
#[cfg(feature = "monitor")]
mod monitor;
mod read;
pub(crate) mod row;
mod setting;
pub(crate) mod trace;
mod validate;

pub use builder::Builder;
pub use city::{CityExpectation, CityMetric, CityScenario, CitySpec};
pub(crate) use controllers::is_controller_file;
pub use controllers::{controller, load_controller};
pub use document::Document;
pub use error::ScenarioError;
pub use expectation::{Expectation, Metric, Subject, Unit};
pub use keys::{schema, setting_paths};
pub use lesson::{Knob, Lesson, Step};
pub(crate) use media::{AUDIO_ID, Unsupported};
pub use media::{GiveUp, MOST_VIDEOS, MediaSpec, RepairSpec, VideoSpec, VideoStream};
pub use model::{
    DEFAULT_QUEUE, FlowKind, FlowSpec, LinkSpec, MediumSpec, OnMedium, QueueSpec, REVERSE, Scenario, Start,
    Transfers,
};
#[cfg(feature = "monitor")]
pub use monitor::{HostSpec, MonitorSpec, Retention, Thresholds, WatchedKind, WatchedStream, Webhook};
#[cfg(test)]
pub(crate) use read::is_made;
pub use setting::Setting;
