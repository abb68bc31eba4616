//! Library for writing a Mortise plugin: a protobuf message and a few functions.
//!
//! A plugin is a static table of resource types, each with its hooks, and one line that exports it:
//!
//! ```
//! use mortise_plugin::{Diagnostics, Plugin, ResourceType, Scope, Typed, field};
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # pub struct Song { #[prost(string, tag = "1")] pub title: String, #[prost(uint32, tag = "2")] pub beats: u32 }
//! # impl prost::Name for Song { const PACKAGE: &'static str = "jukebox.v1"; const NAME: &'static str = "Song"; }
//! # mod proto { pub const DESCRIPTORS: &[u8] = &[]; }
//!
//! static PLUGIN: Plugin = Plugin::new("jukebox", env!("CARGO_PKG_VERSION"), proto::DESCRIPTORS, &[
//!     &ResourceType::<Song>::new("jukebox", "v1", "Song", Scope::Namespace)
//!         .mutate(default_beats)
//!         .validate(has_title)
//!         .key_rules(),
//! ]);
//! mortise_plugin::export!(PLUGIN: mutating, validating, authorizing);
//!
//! fn default_beats(song: &mut Typed<Song>) -> Result<(), Diagnostics> {
//!     if song.data.beats == 0 {
//!         song.data.beats = 120;
//!     }
//!     Ok(())
//! }
//!
//! fn has_title(song: &Typed<Song>, _prior: Option<&Typed<Song>>, diagnostics: &mut Diagnostics) {
//!     if song.data.title.is_empty() {
//!         diagnostics.error("song.title required").at(field("title"));
//!     }
//! }
//! ```
//!
//! The message and its descriptors come from a `.proto` file by [`include_proto!`] and, in build.rs, `build::Protos`
//! (feature `build`); `protoc` is not needed, but a dependency on `prost` is: the generated code names it. Hooks are
//! ordinary functions: test them natively, with [`testing`].
//!
//! # Reconcilers
//! A reconciler makes the world match its resources: it is one method that looks at one resource and does what is
//! missing. A [`Controller`] adds the changes that wake it, and is an entry of the plugin's table:
//!
//! ```
//! use mortise_plugin::{
//!     Condition, Context, Controller, Error, Kind, Mapper, Outcome, Plugin, Reconciler, Request, ResourceType, Scope,
//!     Status, Typed, Watch,
//! };
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # pub struct Song { #[prost(string, tag = "1")] pub title: String, #[prost(uint32, tag = "2")] pub verses: u32 }
//! # impl prost::Name for Song { const PACKAGE: &'static str = "jukebox.v1"; const NAME: &'static str = "Song"; }
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # pub struct Sheet { #[prost(string, tag = "1")] pub heading: String }
//! # impl prost::Name for Sheet { const PACKAGE: &'static str = "jukebox.v1"; const NAME: &'static str = "Sheet"; }
//! # mod proto { pub const DESCRIPTORS: &[u8] = &[]; }
//!
//! const SONG: Kind<Song> = Kind::new("jukebox", "v1", "Song");
//! const SHEET: Kind<Sheet> = Kind::new("jukebox", "v1", "Sheet");
//!
//! static PLUGIN: Plugin = Plugin::new("jukebox", env!("CARGO_PKG_VERSION"), proto::DESCRIPTORS, &[
//!     &ResourceType::of(SONG, Scope::Namespace),
//!     &ResourceType::of(SHEET, Scope::Namespace),
//! ])
//! .controllers(&[&Controller::new("sheets", SONG, Sheets).watches(&[&Watch::new(SHEET, Mapper::Owner)])]);
//! mortise_plugin::export!(PLUGIN: controlling);
//!
//! /// Each song has a sheet of its name.
//! struct Sheets;
//!
//! impl Reconciler for Sheets {
//!     type Managed = Song;
//!
//!     fn reconcile(&self, ctx: &Context<'_>, request: &Request<Song>) -> Result<Outcome, Error> {
//!         let Some(song) = request.read(ctx)? else { return Ok(Outcome::Done) };
//!         if ctx.owned(SHEET, song.id())?.is_empty() {
//!             let id = SHEET.id(song.name(), &song.id().tenancy.clone().unwrap_or_default());
//!             ctx.write(&Typed::new(id, Sheet { heading: song.data.title.clone() }).owned_by(song.id()))?;
//!         }
//!         Status::new("jukebox/sheets", &song).with(Condition::holds("Printed")).write_if_changed(ctx, &song)?;
//!         Ok(Outcome::Done)
//!     }
//! }
//! ```
//!
//! [`Context`] is all that a reconciler can reach: resources, the controller's cache, values of its own, private bytes
//! for one resource, granted directories, secrets and HTTP hosts, time. A [`Finalizer`] cleans up before a deletion,
//! and a [`Mapper`] wakes the reconciler by changes of other types. Test reconcilers natively, in a [`testing::World`].
//!
//! # Plans, moves, imports, functions
//! Clients can call four interfaces besides writes: [`ResourceType::plan`] predicts the result of a write,
//! [`ResourceType::moves_from`] makes a resource from one of another type, [`ResourceType::import`] describes an
//! external object, and [`Plugin::functions`] is a table of [`Function`]s.
//!
//! # Contract
//! - Only the interfaces named in [`export!`] are exported. The hooks in the manifest follow from the table; if the
//!   interface of one is not exported, the host refuses the plugin and names the interface.
//! - A hook is not called for a resource whose data is absent or does not decode: the request is refused with Consul's
//!   text. [`ResourceType::optional_data`] allows absent data.
//! - Unknown fields survive: fields of the resource that are newer than this SDK, and top-level fields of the data that
//!   are newer than the plugin's message. Unknown fields inside nested messages are lost when, and only when, `mutate`
//!   changes the data.
//! - [`settings()`] answers the settings, and [`Plugin::check_settings`] checks them, if `configuring` is exported. A
//!   plugin that uses neither contains no code for them. With the feature `serde` they are a struct: `settings_as`, and
//!   `Plugin::settings_as` for the check, which refuses unknown keys.
//! - A component imports only the interfaces that its code calls: a plugin without reconcilers has none of their
//!   imports. [`Plugin::capabilities`] may name interfaces of the host that the plugin needs, so that a host which does
//!   not know one refuses the plugin.
//! - A panic is a bug of the plugin: its text and place go to the plugin's log, the instance ends, and the caller gets
//!   `Internal`. In a function, which has no log, the text is lost.
//!
//! # Cost
//! Every request gets a fresh instance for its hooks, so setting one up must be cheap: no start function, a stack of
//! 32 KiB (a linker flag that `mortise plugin build` passes), and an arena allocator whose first 64 KiB exist from the
//! start. Hooks of one request that get the same bytes decode them once. A component with eight types and all kinds of
//! hooks is about 130 KB, with 20 KB of function names for backtraces; its memory is three pages of 64 KiB. An empty
//! controller adds about 40 KB, a controller that reads, writes and has a status about 100 KB.
//!
//! # Limits
//! The arena never frees memory, except the newest block: good for an instance that lives for one request, bad for
//! loops over much data. An instance of a reconciler serves many calls, and the allocations of each stay until the host
//! retires the instance, after a number of calls or when its memory has grown; a single reconcile that looks at many
//! large resources may reach the limit. Switch the default feature `arena` off to use another allocator.

#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
pub mod adapter;
mod adoption;
#[cfg(any(all(target_arch = "wasm32", feature = "arena"), all(test, not(target_arch = "wasm32"))))]
mod arena;
pub mod authorize;
#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
pub mod bindings;
#[cfg(all(feature = "build", not(target_arch = "wasm32")))]
pub mod build;
pub mod cache;
#[cfg(any(target_arch = "wasm32", test))]
mod compare;
mod context;
mod controller;
mod diagnostics;
mod dispatch;
mod envelope;
mod export;
mod failure;
mod finalizer;
mod function;
mod grants;
mod hook_input;
pub mod host;
mod http;
mod http_message;
mod kind;
mod level;
pub mod log;
#[cfg(target_arch = "wasm32")]
mod panic;
mod plan;
mod plugin;
mod query;
pub mod raw;
mod reconcile;
mod refs;
mod registered;
mod resource_type;
mod settings;
mod spec;
mod status;
mod tcp;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod typed;
mod value;
mod watch;
mod wire;

pub use adoption::{Import, Move};
pub use authorize::Decision;
pub use cache::Key;
pub use context::Context;
pub use controller::{AnyController, Controller};
pub use diagnostics::{Diagnostic, Diagnostics, Path, Severity, field, metadata, setting};
pub use failure::{Error, Failure};
pub use finalizer::{CleanUp, DeletionState, Finalizer};
pub use function::{Function, FunctionFault, Parameter};
pub use grants::{Files, Kv, PrivateBytes};
pub use http::{Http, HttpRequest, HttpResponse};
pub use kind::{Data, Kind};
pub use mortise_resource::{FieldPath, PathStep, Scope, goten, manifest, meta, name, pb, probes};
pub use plan::Plan;
pub use plugin::{GrantRequest, Plugin};
pub use query::{Page, Query, query};
pub use reconcile::{Outcome, Reconciler, Request};
pub use refs::{everywhere, reference_to, referent};
pub use registered::AnyResourceType;
pub use resource_type::ResourceType;
pub use settings::settings;
#[cfg(any(feature = "serde", all(test, not(target_arch = "wasm32"))))]
pub use settings::{Settings, SettingsError, settings_as};
pub use status::{Condition, Status};
pub use tcp::Tcp;
pub use typed::Typed;
pub use value::{Value, ValueType};
pub use watch::{AnyWatch, Index, Mapper, Watch};

#[doc(hidden)]
pub use mortise_resource::proto as __proto;
pub use prost;
pub use prost_types;
#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
pub use wit_bindgen;

/// Includes the code that the build script generated, as one module: `include_proto!(pub mod proto);`. It holds a
/// module for each protobuf package, and `DESCRIPTORS` for [`Plugin::new`].
#[macro_export]
macro_rules! include_proto {
    ($visibility:vis mod $name:ident) => {
        #[allow(
            missing_docs,
            unreachable_pub,
            dead_code,
            clippy::all,
            clippy::pedantic,
            reason = "generated; the documentation is in the .proto files"
        )]
        $visibility mod $name {
            include!(concat!(env!("OUT_DIR"), "/proto.rs"));

            /// Descriptors of the messages, with imports.
            pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
        }
    };
}

// Generated code names this crate from outside; this makes the name valid inside, too.
#[cfg(target_arch = "wasm32")]
extern crate self as mortise_plugin;
