//! The process: start, signals, kills, memory, address space, systemd.

mod address_space;
mod lifecycle;
mod memory;
mod smoke;
mod systemd;
