//! Callers identified by the unix socket or a certificate, and listening without tokens.

use crate::support::{tokens::*, *};

/// The kernel identifies callers on the unix socket: root and the server's own user need no token, but a given token
/// counts.
#[tokio::test]
async fn local_operators_need_no_token() {
    let guarded = Guarded::start(Setup::new()).await;
    let little = guarded.token("little", &[], |_| {}).await;
    let socket = format!("unix://{}", guarded.server.data_dir.join("mortise.sock").display());
    let who = async |args: &[&str]| {
        let args: Vec<_> = ["auth", "whoami"].iter().chain(args).copied().collect();
        mortise(&args, &[("MORTISE_GRPC_ADDR", "")]).await
    };
    let (code, said, err) = who(&["--grpc-addr", &socket]).await;
    assert!(
        code == Some(0) && said.contains(" on this machine\n") && said.contains("global-management"),
        "{said}{err}"
    );
    let (_, said, _) = who(&["--grpc-addr", &socket, "--token", &little]).await;
    assert!(said.contains("AccessorID 'little'"), "{said}");
    let (code, _, said) = who(&["--grpc-addr", &socket, "--token", "nobody"]).await;
    assert!(code == Some(1) && said.contains("ACL not found"), "{said}");
    let (code, _, said) = mortise(&["status", "--grpc-addr", &guarded.server.grpc.to_string()], &[]).await;
    assert!(code == Some(1) && said.contains("anonymous token lacks permission 'operator:read'"), "{said}");
    // A command without a server address finds the socket.
    let data = guarded.server.data_dir.display().to_string();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mortise"));
    let output = command.args(["auth", "whoami"]).env("MORTISE_DATA_DIR", data).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(" on this machine\n"), "{said}");
    let path = guarded.server.data_dir.join("mortise.sock");
    assert!(path.exists());
}

/// The name in a verified certificate identifies the caller, unless a token is given.
#[tokio::test]
async fn a_certificates_name_is_a_caller() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (code, _, said) = mortise(
        &["tls", "init", "--dir", &at("tls"), "--host", "localhost", "--client", "laptop", "--client", "phone"],
        &[],
    )
    .await;
    assert_eq!(code, Some(0), "{said}");
    let authority = tonic::transport::Certificate::from_pem(std::fs::read(at("tls/ca.pem")).unwrap());
    let setup = Setup::new()
        .config("[acl.certificates]\nlaptop = [\"global-management\"]\n")
        .env("MORTISE_TLS_CERT_FILE", at("tls/server.pem"))
        .env("MORTISE_TLS_KEY_FILE", at("tls/server.key"))
        .env("MORTISE_TLS_CLIENT_CA_FILE", at("tls/ca.pem"))
        .tls(tonic::transport::ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost"));
    let server = setup.acl().start().await;
    let addr = format!("https://localhost:{}", server.grpc.port());
    let who = async |client: &str, more: &[&str]| {
        let (cert, key) = (at(&format!("tls/{client}.pem")), at(&format!("tls/{client}.key")));
        let ca = at("tls/ca.pem");
        let mut args = vec!["auth", "whoami", "--grpc-addr", &addr, "--ca-file", &ca];
        if !client.is_empty() {
            args.extend(["--client-cert", &cert, "--client-key", &key]);
        }
        args.extend(more);
        let (_, out, err) = mortise(&args, &[]).await;
        out + &err
    };
    let said = who("laptop", &[]).await;
    assert!(said.contains("certificate \"laptop\"") && said.contains("global-management"), "{said}");
    assert!(who("phone", &[]).await.contains("anonymous token"));
    assert!(who("", &[]).await.contains("anonymous token"));
    let secret = server.data_dir.join("bootstrap-token").display().to_string();
    assert!(who("laptop", &["--token-file", &secret]).await.contains("AccessorID 'bootstrap'"));
    assert!(who("laptop", &["--token", "nobody"]).await.contains("ACL not found"));
}

/// The socket of a killed server is replaced, a server removes its own, and other files stay.
#[tokio::test]
async fn the_socket_has_a_place_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let path = data.join("mortise.sock");
    let setup = || Setup::new().data_dir(&data);
    let mut server = setup().start().await;
    server.signal("KILL");
    server.ended().await;
    assert!(path.exists(), "it was killed");
    let server = setup().start().await;
    assert!(tokio::net::UnixStream::connect(&path).await.is_ok());
    server.stop().await;
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    let server = setup().start().await;
    assert!(server.log().contains("a file that is not a socket has this path"), "{}", server.log());
    server.stop().await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// A server listens to other machines only with tokens and TLS, or if it is explicitly allowed without.
#[tokio::test]
async fn a_server_does_not_listen_to_others_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let at = data.to_str().unwrap();
    let files = dir.path().join("tls");
    let (code, _, said) = mortise(&["tls", "init", "--dir", files.to_str().unwrap(), "--host", "localhost"], &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let (cert, key) = (files.join("server.pem"), files.join("server.key"));
    let tls = [("MORTISE_TLS_CERT_FILE", cert.to_str().unwrap()), ("MORTISE_TLS_KEY_FILE", key.to_str().unwrap())];
    let (open, none) = (("MORTISE_ACL_ENABLED", "false"), ("MORTISE_ACL_ENABLED", "true"));
    let everywhere =
        [("MORTISE_GRPC_ADDR", "0.0.0.0:0"), ("MORTISE_HTTP_ADDR", "[::]:0"), ("MORTISE_GRPC_ADDR", "192.0.2.1:0")];
    for addr in everywhere {
        for (env, missing) in [
            (vec![addr, none], "and lacks TLS (tls.cert_file and tls.key_file;"),
            (vec![addr, open], "and lacks tokens (acl.enabled) and TLS"),
            ([vec![addr, open], tls.to_vec()].concat(), "and lacks tokens (acl.enabled);"),
        ] {
            for mode in ["serve", "dev"] {
                let (code, _, said) = mortise(&[mode, "--data-dir", at], &env).await;
                assert!(
                    code == Some(2) && said.contains(missing) && said.contains("allow_insecure = true"),
                    "{mode} {env:?}: {said}"
                );
            }
        }
    }
    // By itself, `mortise dev` asks for no tokens.
    let (code, _, said) = mortise(&["dev", "--data-dir", at], &[everywhere[0]]).await;
    assert!(code == Some(2) && said.contains("lacks tokens (acl.enabled) and TLS"), "{said}");
    assert!(!data.exists(), "nothing was begun");
    // Allowed, it fails for another reason: the address is of no machine.
    for mode in ["serve", "dev"] {
        let (code, _, said) = mortise(&[mode, "--data-dir", at, "--insecure"], &[everywhere[2], open]).await;
        assert!(code == Some(1) && said.contains("cannot listen on 192.0.2.1:0"), "{mode}: {said}");
    }
    let told = Setup::new().serve().env("MORTISE_HTTP_ADDR", "0.0.0.0:0").env("MORTISE_ALLOW_INSECURE", true);
    assert!(told.start().await.log().contains("everyone who reaches the ports may do everything"));
}
