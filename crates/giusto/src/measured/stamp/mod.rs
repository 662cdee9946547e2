//! STAMP over real sockets (RFC 8762): a Session-Sender that is paced as every stream, and a Session-Reflector.

mod interval;
mod plan;
mod reflect;
mod result;
mod send;

pub use interval::ReflectorIntervals;
pub use plan::StampClient;
pub use reflect::Reflection;
