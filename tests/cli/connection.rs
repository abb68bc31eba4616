//! Ways to choose the server: flags, environment, contexts, tokens and TLS.

use std::sync::{Arc, Mutex};

use mortise_api::plugin_stubs::type_service_server::{TypeService, TypeServiceServer};
use mortise_resource::data;
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server as Tonic, ServerTlsConfig, server::TcpIncoming},
};

use crate::support::{Server, transcript::Transcript};

#[tokio::test]
async fn contexts_name_servers() {
    let server = Server::start().await;
    let addr = server.grpc.to_string();
    let mut t = Transcript::new("contexts", &server);
    // Without the variable, which beats a context.
    let unset = [("MORTISE_GRPC_ADDR", "")];
    assert_eq!(t.run_with(&["context", "list"], "", &unset).await.code, Some(0));
    t.fails(2, &["context", "show"]).await;
    t.works(&["context", "set", "here", "--grpc-addr", &addr, "--namespace", "default"]).await;
    t.works(&[
        "context",
        "set",
        "far",
        "--grpc-addr",
        "https://far.example.net",
        "--token-file",
        "token",
        "--partition",
        "east",
    ])
    .await;
    t.works(&["context", "list"]).await;
    t.works(&["context", "show"]).await;
    t.works(&["context", "show", "far"]).await;
    assert_eq!(t.run_with(&["types", "-o", "name"], "", &unset).await.code, Some(0));
    t.works(&["context", "use", "far"]).await;
    assert_eq!(t.run_with(&["types"], "", &unset).await.code, Some(2), "its token file is missing");
    assert_eq!(t.run_with(&["get", "executives", "--context", "here"], "", &unset).await.code, Some(0));
    assert_eq!(
        t.run_with(&["get", "executives"], "", &[("MORTISE_GRPC_ADDR", ""), ("MORTISE_CONTEXT", "here")]).await.code,
        Some(0)
    );
    t.works(&["context", "set", "far", "--token-file", "", "--tls=false"]).await;
    t.works(&["context", "show"]).await;
    t.works(&["context", "delete", "far"]).await;
    t.fails(2, &["context", "delete", "far"]).await;
    t.fails(2, &["context", "use", "nowhere"]).await;
    t.fails(2, &["types", "--context", "nowhere"]).await;
    t.fails(2, &["context", "set", "Bad_Name"]).await;
    t.fails(2, &["context", "set", "x", "--grpc-addr", "ftp://x"]).await;
    t.file(".config/mortise/contexts.toml", "[context.x]\ngrpc_adr = \"y\"\n");
    t.fails(2, &["types"]).await;
    let elsewhere = [("MORTISE_CONTEXTS", "other/contexts.toml")];
    assert_eq!(t.run_with(&["context", "set", "a", "--grpc-addr", "a:1"], "", &elsewhere).await.code, Some(0));
    assert!(t.dir().join("other/contexts.toml").exists());
    t.finish();
}

#[tokio::test]
async fn connection_errors_name_the_fault() {
    let mut t = Transcript::at("unreachable", "127.0.0.1:1");
    t.fails(3, &["types"]).await;
    t.fails(3, &["apply", "-f", "x.yaml"]).await;
    t.fails(3, &["get", "artists", "--grpc-addr", "http://localhost:1"]).await;
    for addr in ["", "ftp://x", "a:b", "a:0", "a:70000", "::1", "[::1", "[::1]x", "a/b", "user@a", "http://", "a b"] {
        let ran = t.run(&["types", "--grpc-addr", addr]).await;
        assert_eq!(ran.code, Some(2), "{addr}: {}", ran.err);
    }
    t.fails(2, &["types", "--tls", "--grpc-addr", "http://a"]).await;
    t.fails(2, &["types", "--tls=false", "--grpc-addr", "https://a"]).await;
    t.fails(2, &["types", "--tls=perhaps"]).await;
    t.fails(2, &["types", "--token", "a", "--token-file", "b"]).await;
    t.fails(2, &["types", "--token-file", "missing"]).await;
    t.fails(2, &["types", "--token", " "]).await;
    t.fails(2, &["types", "--token", "a\nb"]).await;
    t.fails(2, &["types", "--client-cert", "a.pem"]).await;
    t.fails(2, &["types", "--ca-file", "missing.pem"]).await;
    t.file("empty.pem", "");
    t.fails(2, &["types", "--ca-file", "empty.pem"]).await;
    t.fails(2, &["types", "--timeout", "soon"]).await;
    for (name, value) in [("MORTISE_TLS", "perhaps"), ("MORTISE_TIMEOUT", "soon"), ("MORTISE_TOKEN_FILE", "missing")] {
        assert_eq!(t.run_with(&["types"], "", &[(name, value)]).await.code, Some(2), "{name}");
    }
    // A server that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let output = t.command(&["types", "--grpc-addr", &addr, "--timeout", "300ms"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    t.finish();
}

/// A type service that returns no types and records the token of each call.
#[derive(Default, Clone)]
struct Door(Arc<Mutex<Vec<Option<String>>>>);

#[tonic::async_trait]
impl TypeService for Door {
    async fn list_types(
        &self,
        request: Request<data::ListTypesRequest>,
    ) -> Result<Response<data::ListTypesResponse>, Status> {
        let token = request.metadata().get("x-consul-token").map(|token| token.to_str().unwrap().to_owned());
        self.0.lock().unwrap().push(token);
        Ok(Response::new(data::ListTypesResponse::default()))
    }

    async fn get_type(&self, _: Request<data::GetTypeRequest>) -> Result<Response<data::GetTypeResponse>, Status> {
        Err(Status::unauthenticated("token not known"))
    }
}

#[tokio::test]
async fn tls_and_tokens() {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_cert = ca.self_signed(&ca_key).unwrap();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let issue = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    };
    let (cert, key) = issue("door.test");
    let (client_cert, client_key) = issue("client.test");
    let door = Door::default();
    let listen = async |mutual: bool| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut tls = ServerTlsConfig::new().identity(Identity::from_pem(&cert, &key));
        if mutual {
            tls = tls.client_ca_root(tonic::transport::Certificate::from_pem(ca_cert.pem()));
        }
        let serving = Tonic::builder().tls_config(tls).unwrap().add_service(TypeServiceServer::new(door.clone()));
        tokio::spawn(serving.serve_with_incoming(TcpIncoming::from(listener)));
        addr.to_string()
    };
    let (open, mutual) = (listen(false).await, listen(true).await);
    let t = Transcript::at("tls", &open);
    t.file("ca.pem", ca_cert.pem());
    t.file("client.pem", client_cert);
    t.file("client.key", client_key);
    t.file("token", "s3cret\n");
    let run = async |args: &[&str], env: &[(&str, &str)]| {
        let mut command = t.command(&[&["types"][..], args].concat());
        let output = command.envs(env.iter().copied()).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let trusted = ["--ca-file", "ca.pem", "--tls-server-name", "door.test"];
    assert_eq!(run(&trusted, &[]).await, (Some(0), String::new()));
    let (code, said) = run(&["--tls"], &[]).await;
    assert_eq!(code, Some(3), "not trusted: {said}");
    assert!(
        said.contains("cannot reach the server at https://") && said.to_lowercase().contains("unknownissuer"),
        "{said}"
    );
    let (code, said) = run(&["--ca-file", "ca.pem"], &[]).await;
    assert_eq!(code, Some(3), "another name: {said}");
    assert_eq!(run(&[], &[]).await.0, Some(3), "in the clear");
    let by_env =
        [("MORTISE_CA_FILE", "ca.pem"), ("MORTISE_TLS_SERVER_NAME", "door.test"), ("MORTISE_TOKEN_FILE", "token")];
    assert_eq!(run(&[], &by_env).await, (Some(0), String::new()));
    assert_eq!(run(&[&trusted[..], &["--token", "flag"]].concat(), &by_env).await.0, Some(0));
    let tokens = std::mem::take(&mut *door.0.lock().unwrap());
    assert_eq!(tokens, [None, Some("s3cret".into()), Some("flag".into())]);

    let mutual = ["--grpc-addr", &format!("https://{mutual}")];
    assert_eq!(run(&[&trusted[..], &mutual].concat(), &[]).await.0, Some(3), "without a certificate");
    let own = ["--client-cert", "client.pem", "--client-key", "client.key"];
    assert_eq!(run(&[&trusted[..], &mutual, &own].concat(), &[]).await, (Some(0), String::new()));
}
