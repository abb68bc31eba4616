//! The process: start, signals, kills, log, memory, address space, systemd.

mod address_space;
mod lifecycle;
mod log;
mod memory;
mod reload;
mod signals;
mod smoke;
mod sockets;
mod start;
mod systemd;
