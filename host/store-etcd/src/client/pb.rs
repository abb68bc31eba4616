//! The generated messages and clients of etcd's API.

#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes,
    unreachable_pub,
    dead_code,
    reason = "generated code"
)]

tonic::include_proto!("etcdserverpb");

pub(crate) use self::{
    auth_client::AuthClient, kv_client::KvClient, lease_client::LeaseClient, maintenance_client::MaintenanceClient,
    watch_client::WatchClient,
};
