//! What a simulated run leaves besides its record: a session log of one controller, its packets as pcapng, its course as a Chrome
//! trace.

mod outputs;

pub use outputs::Outputs;
