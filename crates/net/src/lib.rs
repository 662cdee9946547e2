//! A network of sockets: the clock, the sleeper, batched UDP with kernel timestamps, and the drivers.
