//! The provider for Terraform, driven by the tests' own core (`terraform_core`) and by a real one.

mod changes;
mod export;
mod mirror_server;
mod moves;
mod real_core;
mod rules;
mod terraform;
mod terraform_core;
