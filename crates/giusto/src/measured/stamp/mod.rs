//! STAMP over real sockets (RFC 8762): a Session-Sender that is paced as every stream, and a Session-Reflector.

mod interval;
mod plan;
mod reflect;
mod result;
mod send;

pub use interval::{ReflectorInterval, ReflectorIntervals, StampInterval};
pub use plan::{StampPacing, StampPlan, StampPlanError};
pub use reflect::Reflection;
pub use result::{StampExtensions, StampPath, StampResult, StampTtl};
pub use send::{StampLive, StampTarget, run};
