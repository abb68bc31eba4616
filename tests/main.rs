//! Black-box tests: the binary, over the wire. One program, since each would hold the whole of the server's messages
//! and its clients; a file for each subject.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod acl;
mod address_space;
mod audit;
mod author;
mod author_errors;
mod backup;
mod browsers;
mod cascade;
mod catalog;
mod changes;
mod cli_catalog;
mod cli_changes;
mod cli_connection;
mod cli_consul;
mod cli_edit;
mod cli_errors;
mod cli_errors_covered;
mod cli_errors_files;
mod cli_export;
mod cli_help;
mod cli_operators;
mod cli_order;
mod cli_query;
mod cli_resources;
mod command_line;
mod common;
mod contract;
mod controllers;
mod controllers_crash;
mod controllers_grants;
mod controllers_hostile;
mod controllers_http;
mod controllers_mapping;
mod controllers_query;
mod controllers_reload;
mod controllers_tcp;
mod core;
mod delete;
mod descriptor_chains;
mod destination;
mod destination_churn;
mod destination_crowd;
mod destination_profile;
mod dns;
mod edge;
mod full_disk;
mod golden;
mod grant_requests;
mod grpc_connections;
mod guest_answers;
mod guest_neighbours;
mod guests;
mod hook_search;
mod http;
mod http_limits;
mod http_query;
mod http_types;
mod http_watch;
mod identical_bytes;
mod kit;
mod lifecycle;
mod list;
mod list_by_owner;
mod manifests;
mod memory;
mod meta;
mod mutate_and_validate;
mod observed;
mod plugin_commands;
mod plugin_secrets;
mod plugin_service;
mod plugin_trust;
mod plugins;
mod provider;
mod provider_changes;
mod provider_terraform;
mod proxy;
mod quarantine;
mod query;
mod query_hostile;
mod query_index;
mod quotas;
mod read;
mod redaction;
mod reflection;
mod region_history;
mod region_sync;
mod regions;
mod reload;
mod reload_broken;
mod reload_load;
mod routes;
mod server_service;
mod settings;
mod smoke;
mod systemd;
mod tenancy;
mod tenancy_deletion;
mod tls;
mod tls_files;
mod tombstone;
mod type_service;
mod upgrade;
mod wasi;
mod watch;
mod watch_list;
mod watch_list_live;
mod web;
mod world;
mod write;
mod write_data;
mod write_marked;
mod write_status;
mod write_stored;
