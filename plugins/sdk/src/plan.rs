//! Plans: expected results of writes.

use mortise_resource::FieldPath;

use crate::{Data, Diagnostics, Path, Typed, hook_input::HookInput, raw};

/// Expected result of a write that may never be made; a hook of [`crate::ResourceType::plan`] fills it in.
///
/// ```
/// # use mortise_plugin::{Plan, Typed, field};
/// # #[derive(Clone, PartialEq, prost::Message)] pub struct Song { #[prost(string, tag = "1")] pub title: String,
/// #     #[prost(string, tag = "2")] pub key: String, #[prost(string, tag = "3")] pub sheet: String }
/// fn plan(song: &Typed<Song>, prior: Option<&Typed<Song>>, _kept: Option<&[u8]>, plan: &mut Plan<Song>) {
///     if prior.is_some_and(|prior| prior.data.key != song.data.key) {
///         plan.replace(field("key"));
///         plan.diagnostics.warning("the sheet is printed again").at(field("key"));
///     }
///     let mut predicted = song.clone();
///     predicted.data.sheet = format!("{}.pdf", song.data.title);
///     plan.predict(predicted);
/// }
/// ```
#[derive(Debug)]
pub struct Plan<M> {
    /// Diagnostics: errors refuse the plan; warnings are reported to the caller.
    pub diagnostics: Diagnostics,
    replace: Vec<FieldPath>,
    predicted: Option<Typed<M>>,
}

impl<M> Plan<M> {
    /// Marks a field whose new value the stored resource cannot take: the resource must be deleted and created again.
    /// Ignored if no resource is stored.
    pub fn replace(&mut self, path: Path) {
        self.replace.push(path.into());
    }

    /// Sets the resource as the plugin's controllers will finally make it; only its data and metadata count. The
    /// default is the resource that the write leaves.
    pub fn predict(&mut self, resource: Typed<M>) {
        self.predicted = Some(resource);
    }
}

impl<M: Data> Plan<M> {
    /// Runs a hook on a resource, whose encoding is `input`.
    pub(crate) fn of(
        input: &[u8],
        resource: &mut HookInput,
        optional: bool,
        hook: impl FnOnce(&Typed<M>, &mut Self),
    ) -> raw::Plan {
        let typed = match resource.typed(optional) {
            Ok(typed) => typed,
            Err(diagnostics) => return diagnostics.into(),
        };
        let mut plan = Self { diagnostics: Diagnostics::new(), replace: Vec::new(), predicted: None };
        hook(typed, &mut plan);
        let Self { diagnostics, replace, predicted } = plan;
        match predicted.map_or(Ok(None), |predicted| predicted.spliced_into(typed, input)) {
            Ok(predicted) => raw::Plan { predicted, replace, diagnostics },
            Err(diagnostics) => diagnostics.into(),
        }
    }
}
