//! Linking of a component's WASI imports, in the types that the component wants.

use wasmtime::{
    Engine,
    component::{Component, Linker, ResourceType, types::ComponentItem},
};

use super::{
    answer,
    handles::kind,
    http_link,
    interfaces::{HTTP, interface},
    stub,
};
use crate::host::state::State;

/// Links a component's WASI imports. With `http`, its requests are really sent: that is for controllers, and each of
/// their stores has an [`super::http::Http`].
pub(crate) fn link(
    linker: &mut Linker<State>,
    engine: &Engine,
    component: &Component,
    http: bool,
) -> wasmtime::Result<()> {
    if http {
        http_link::link(linker)?;
    }
    for (import, item) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(instance)) = (interface(import), item.ty) else {
            continue;
        };
        if http && (interface.starts_with("io/") || HTTP.contains(&interface)) {
            continue;
        }
        let mut target = linker.instance(import)?;
        for (name, item) in instance.exports(engine) {
            match item.ty {
                ComponentItem::ComponentFunc(_) => {
                    let (interface, function) = (interface.to_owned(), name.to_owned());
                    target.func_new(name, move |mut store, ty, arguments, results| {
                        store.data_mut().count_host_call()?;
                        let answer = answer::answer(&mut store, &interface, &function, &ty, arguments)?;
                        if let (Some(place), Some(answer)) = (results.first_mut(), answer) {
                            *place = answer;
                        }
                        Ok(())
                    })?;
                }
                ComponentItem::Resource(_) => {
                    let theirs = if http { stub::kind(name) } else { None };
                    let resource_type = theirs.unwrap_or_else(|| ResourceType::host_dynamic(kind(name)));
                    target.resource(name, resource_type, |_, _| Ok(()))?
                }
                _ => {}
            }
        }
    }
    Ok(())
}
