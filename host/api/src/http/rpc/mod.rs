//! `/rpc`: the RPCs of Mortise's own gRPC services, as JSON.
//!
//! | path | file |
//! |---|---|
//! | `GET /rpc` | `list` |
//! | `POST /rpc/<service>/<method>`, one answer | `unary` |
//! | the same, a stream of answers | `events`: server-sent events |
//! | `POST /rpc/mortise.v1.PluginService/Install` | `install`: the body is the component |
//!
//! # Contract
//! A call is made of the services of the gRPC port, within its layer ([`crate::grpc::in_process`]): the requirement of
//! the method, its record, the limits of calls and their deadlines are those of gRPC. The layer decides before the body
//! is read. Nothing here knows a method by name, but for the upload and the methods that are not served (`methods`).
//!
//! # Limits
//! A body is bounded as all others (`body`), a component by its own limits. A stream has a place among the watches of
//! the port. Answers above 64 KiB share the budget of large bodies until they are sent, beyond which they are 503; one
//! above 1 MiB is printed at a time.

mod call;
mod events;
mod install;
mod list;
mod methods;
mod print;
mod request_body;
mod unary;

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header::ALLOW},
    response::{IntoResponse as _, Response},
};
use mortise_resource::{Code, Error};
use mortise_service::registry::Registry;
use mortise_text::nearest;
use prost_reflect::DescriptorPool;

use self::{
    call::RpcCall,
    methods::{PREFIX, find, path_of, services, unserved},
};
pub(super) use self::{list::list, methods::documented};
use super::{
    Shared,
    accept::Form,
    body,
    descriptors::host_pool,
    error::{ErrorKind, HttpError},
};
use crate::authenticate::Authenticated;

/// Handles every request for an RPC.
pub(super) async fn rpc(
    State(shared): State<Shared>,
    Extension(by): Extension<Authenticated>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let (path, form) = (parts.uri.path().to_owned(), Form::of_ours(&parts.headers));
    let within = shared.options.request_timeout;
    let found =
        host_pool(&shared.service.types()).and_then(|pool| find(&pool, &path).ok_or_else(|| no_method(&pool, &path)));
    let method = match found {
        Ok(method) => method,
        Err(fault) => {
            body::drain(body, within).await;
            return fault.into_response(form, &path);
        }
    };
    if parts.method != Method::POST {
        body::drain(body, within).await;
        return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, HeaderValue::from_static("POST"))]).into_response();
    }
    if let Some(why) = unserved(&method) {
        body::drain(body, within).await;
        return HttpError::from(Error::new(Code::Unimplemented, why)).into_response(form, &path);
    }
    let call = RpcCall { shared, by, method, parts, body: body.into() };
    let answer = match (call.method.is_client_streaming(), call.method.is_server_streaming()) {
        (true, _) => install::install(&call).await,
        (false, true) => events::events(&call).await,
        (false, false) => unary::unary(&call).await,
    };
    match answer {
        Ok(answer) => answer,
        Err(fault) => {
            call.body.drain(within).await;
            fault.into_response(form, &path)
        }
    }
}

/// The method that the layer of gRPC records; `None` for requests that no service gets.
pub(super) fn recorded<'p>(registry: &Registry, method: &Method, path: &'p str) -> Option<&'p str> {
    let name = path.strip_prefix(PREFIX).filter(|_| *method == Method::POST)?;
    let found = find(&host_pool(registry).ok()?, path)?;
    unserved(&found).is_none().then_some(name)
}

/// The error of a path without a method, with the methods that it may mean.
fn no_method(pool: &DescriptorPool, path: &str) -> HttpError {
    let (service, method) =
        path.strip_prefix(PREFIX).map_or(("", ""), |rest| rest.rsplit_once('/').unwrap_or(("", rest)));
    let plain = service.rsplit('.').next().unwrap_or_default();
    let named = nearest(plain, services(pool).map(|service| service.name().to_owned()));
    let likely = services(pool).filter(|known| named.as_ref().is_none_or(|name| name == known.name()));
    let methods: Vec<_> = likely.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let meant = nearest(method, methods.iter().map(|method| method.name().to_owned()));
    let mut near: Vec<_> =
        methods.iter().filter(|known| meant.as_deref().is_some_and(|name| name == known.name())).map(path_of).collect();
    if near.is_empty() && named.is_some() {
        near = methods.iter().map(path_of).collect();
    }
    let next = match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    };
    let then = if next.is_empty() { ";" } else { "" };
    HttpError::new(ErrorKind::NoRoute, format!("nothing is served at {path}{next}{then} GET /rpc lists the RPCs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_methods_lead_to_the_right_one() {
        let pool = host_pool(&Registry::builtin().unwrap()).unwrap();
        for (path, wanted) in [
            ("/rpc/mortise.v1.PluginService/rollback", "/rpc/mortise.v1.PluginService/Rollback"),
            ("/rpc/PluginService/Rollback", "/rpc/mortise.v1.PluginService/Rollback"),
            ("/rpc/mortise.v1.PluginServise/Rolback", "/rpc/mortise.v1.PluginService/Rollback"),
            ("/rpc/mortise.v2.AuthService/Who", "/rpc/mortise.v1.AuthService/WhoAmI"),
            ("/rpc/WhoAmI", "/rpc/mortise.v1.AuthService/WhoAmI"),
        ] {
            assert!(find(&pool, path).is_none(), "{path}");
            let text = format!("{:?}", no_method(&pool, path));
            assert!(text.contains(wanted), "{path}: {text}");
        }
        let text = format!("{:?}", no_method(&pool, "/rpc/grpc.health.v1.Health/Check"));
        assert!(!text.contains("did you mean") && text.contains("GET /rpc lists"), "{text}");
        assert!(find(&pool, "/rpc/hashicorp.consul.resource.ResourceService/Read").is_none());
        assert!(find(&pool, "/rpc/mortise.v1.PluginService/Rollback/x").is_none());
    }
}
