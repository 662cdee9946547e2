//! A scenario to explore: which of its values can be changed, what a run with other values shows, and the scenarios to begin with.
//!
//! [`Explorer`] answers questions without a clock of its own and without a socket; `giusto explore` puts it behind a page.
//!
//! # Example
//!
//! ```
//! use std::sync::Mutex;
//! use giusto::explore::{Explorer, Question, Update};
//!
//! let explorer = Explorer::new(None);
//! let question: Question = serde_json::from_str(
//!     r#"{"sides": [{"scenario": "first", "settings": [["duration", "5 s"]]}]}"#,
//! )?;
//! let headline = Mutex::new(String::new());
//! explorer.answer(&question, &|| false, &|update| {
//!     if let Update::Picture { report, .. } = update {
//!         *headline.lock().unwrap() = report.headline.clone();
//!     }
//! })?;
//! assert!(!headline.lock().unwrap().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod controls;
mod error;
mod film;
mod gallery;
#[cfg(feature = "system")]
mod threads;

pub use answer::{Asked, Explorer, MAX_RUNS, MAX_SEEDS, Question, Side, Sketch, Update};
pub use controls::{Control, Group, Kind, Slider, controls};
pub use error::ExploreError;
pub use film::Film;
pub use gallery::{Entry, Settings, built_in, entries, load};
