//! The right to a certificate: deny by default, by rules on the identity alone.

use linkerd2_proxy_api::identity::identity_client::IdentityClient;
use mortise_api::AuthServiceClient;
use mortise_resource::{data, pb};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use tonic::{Code, Request, transport::Identity};

use super::{Mesh, asked, pem, request};
use crate::support::{tokens::As, *};

#[tokio::test]
async fn callers_without_the_right_are_denied_and_recorded() {
    let mesh = Mesh::start("[acl]\nanonymous_policies = [\"everything\"]\n", |setup| setup).await;
    let key = KeyPair::generate().unwrap();
    let ask = async |secret: &str, identity: &str| {
        mesh.certify(secret, identity, request(&key, &[identity])).await.map(drop).map_err(|status| status.code())
    };
    mesh.guarded.policy("everything", "identity_prefix \"\" { policy = \"write\" }", Vec::new()).await;
    mesh.guarded
        .policy(
            "web",
            "identity \"web.mesh.test\" { policy = \"write\" }\n\
             identity_prefix \"api.\" { policy = \"write\" }\n\
             identity \"api.secret.mesh.test\" { policy = \"deny\" }\n\
             identity \"read.mesh.test\" { policy = \"list\" }",
            Vec::new(),
        )
        .await;
    let web = mesh.guarded.token("web", &["web"], |_| ()).await;
    let none = mesh.guarded.token("none", &[], |_| ()).await;
    // Rules by type and place have no say.
    let all = data::TypeRule { types: vec!["*".into()], verbs: vec!["*".into()], ..data::TypeRule::default() };
    mesh.guarded.policy("types", "key_prefix \"\" { policy = \"write\" }", vec![all]).await;
    let types = mesh.guarded.token("types", &["types"], |_| ()).await;
    for (secret, identity, expected) in [
        (&*web, "web.mesh.test", Ok(())),
        (&*web, "api.a.mesh.test", Ok(())),
        (&*mesh.guarded.management, "other.mesh.test", Ok(())),
        (&*web, "api.secret.mesh.test", Err(Code::PermissionDenied)),
        (&*web, "read.mesh.test", Err(Code::PermissionDenied)),
        (&*web, "other.mesh.test", Err(Code::PermissionDenied)),
        (&*web, "web.web.mesh.test", Err(Code::PermissionDenied)),
        (&*none, "web.mesh.test", Err(Code::PermissionDenied)),
        (&*types, "web.mesh.test", Err(Code::PermissionDenied)),
        // Anonymous callers never get one, with any policies.
        ("", "web.mesh.test", Err(Code::PermissionDenied)),
        ("unknown", "web.mesh.test", Err(Code::Unauthenticated)),
        ("\u{e9}", "web.mesh.test", Err(Code::Unauthenticated)),
    ] {
        assert_eq!(ask(secret, identity).await, expected, "{identity} by {secret:?}");
    }
    let denied = until("records of all refusals", async || {
        let records: Vec<_> = mesh.records().into_iter().filter(|record| record["decision"] == "deny").collect();
        if records.len() == 9 { Ok(records) } else { Err(records) }
    })
    .await;
    assert!(denied.iter().all(|record| record.get("serial").is_none()));
    assert!(denied.iter().any(|record| record["caller"] == "unknown token" && record["code"] == "Unauthenticated"));

    // The token may be in the metadata, too; that of the message comes first.
    let by_metadata = async |metadata: &str, secret: &str| {
        let message = asked(secret, "web.mesh.test", request(&key, &["web.mesh.test"]));
        let token = As(Some(metadata.parse().unwrap()));
        let mut client = IdentityClient::with_interceptor(mesh.channel(None).await, token);
        client.certify(Request::new(message)).await.map(drop).map_err(|status| status.code())
    };
    assert_eq!(by_metadata(&*web, "").await, Ok(()));
    assert_eq!(by_metadata(&none, &web).await, Ok(()));
    assert_eq!(by_metadata(&web, &none).await, Err(Code::PermissionDenied));
}

#[tokio::test]
async fn misspelt_rules_are_refused_as_others_are() {
    let mesh = Mesh::start("", |setup| setup).await;
    let mut client = mesh.guarded.resources(&mesh.guarded.management).await;
    for (rules, fault) in [
        ("identty \"web.mesh.test\" { policy = \"write\" }", "identty"),
        ("identity \"web.mesh.test\" { policy = \"certify\" }", "certify"),
        ("identity_prefix \"web.\" { policy = \"wirte\" }", "wirte"),
    ] {
        let policy = data::Policy { rules: rules.to_owned(), ..data::Policy::default() };
        let written = resource(id("mortise.v1.Policy", "wrong"), Some(any("mortise.v1.Policy", &policy)));
        let refused = client.write(pb::WriteRequest { resource: Some(written) }).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(fault), "{refused}");
    }
}

#[tokio::test]
async fn can_i_certify_is_decided_like_the_request() {
    let mesh = Mesh::start("", |setup| setup).await;
    let web = mesh.token("web", "web.").await;
    let asks = async |secret: &str, as_token: &str, as_policy: &str, identity: &str| {
        let id = pb::Id { name: identity.to_owned(), ..pb::Id::default() };
        let as_policies = if as_policy.is_empty() { Vec::new() } else { vec![as_policy.to_owned()] };
        let request =
            data::CanIRequest { verb: "certify".into(), id: Some(id), as_token: as_token.into(), as_policies };
        let mut client = AuthServiceClient::new(mesh.guarded.channel(secret).await);
        let answer = client.can_i(request).await.unwrap().into_inner();
        (answer.allowed, answer.reason)
    };
    assert_eq!(asks(&*web, "", "", "web.mesh.test").await, (true, String::new()));
    let (allowed, reason) = asks(&*web, "", "", "api.mesh.test").await;
    assert!(!allowed && reason.contains("lacks permission 'identity:write' on \"api.mesh.test\""), "{reason}");
    let management = &mesh.guarded.management;
    assert!(asks(management, "web", "", "web.mesh.test").await.0);
    assert!(!asks(management, "web", "", "api.mesh.test").await.0);
    assert!(asks(management, "", "web", "web.mesh.test").await.0);

    let secret = mesh.path("web.token");
    std::fs::write(&secret, &web).unwrap();
    let (addr, ca) = (format!("https://{}", mesh.guarded.server.grpc), mesh.path("ca.pem").display().to_string());
    let secret = secret.display().to_string();
    let cli = async |args: &[&str]| {
        let mut all = vec!["auth", "can-i"];
        all.extend(args);
        all.extend(["--grpc-addr", &addr, "--ca-file", &ca, "--token-file", &secret]);
        let (code, out, err) = mortise(&all, &[("MORTISE_CONTEXTS", "/dev/null")]).await;
        (code, format!("{out}{err}"))
    };
    let (code, text) = cli(&["certify", "web.mesh.test"]).await;
    assert!(code == Some(0) && text.contains("yes\n"), "{text}");
    let (code, text) = cli(&["certify", "api.mesh.test"]).await;
    assert!(code == Some(1) && text.contains("identity:write"), "{text}");
    let (code, text) = cli(&["certify", "web.mesh.test", "more"]).await;
    assert!(code == Some(2) && text.contains("certify takes an identity alone"), "{text}");
}

/// A certificate proves its caller, so names with policies are given to callers with these policies alone.
#[tokio::test]
async fn a_certificate_does_not_give_more_rights_than_its_caller_has() {
    let config = "[acl.certificates]\n\"web.mesh.test\" = [\"web\"]\n\"boss.mesh.test\" = [\"global-management\"]\n";
    let mesh = Mesh::start(config, |setup| setup).await;
    let all = mesh.token("all", "").await;
    let web = mesh.token("web", "web.").await;
    let key = KeyPair::generate().unwrap();
    let ask = async |secret: &str, identity: &str| mesh.certify(secret, identity, request(&key, &[identity])).await;
    let refused = ask(&all, "boss.mesh.test").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("acl.certificates"), "{refused}");
    // Whoever holds more than the name has may get it.
    ask(&all, "web.mesh.test").await.unwrap();
    let answer = ask(&*web, "web.mesh.test").await.unwrap();
    ask(&mesh.guarded.management, "boss.mesh.test").await.unwrap();

    // With its certificate alone, the proxy is the caller of that name, and renews it.
    let credentials = super::Credentials { key, answer };
    let channel = mesh.channel(Some(credentials.identity())).await;
    let who = AuthServiceClient::new(channel.clone()).who_am_i(data::WhoAmIRequest {}).await.unwrap().into_inner();
    assert_eq!(who.name, "certificate \"web.mesh.test\"");
    let renewal = |identity: &str| asked("", identity, request(&credentials.key, &[identity]));
    let mut client = IdentityClient::new(channel);
    let renewed = client.certify(renewal("web.mesh.test")).await.unwrap().into_inner();
    assert_ne!(renewed.leaf_certificate, credentials.answer.leaf_certificate);
    assert_eq!(client.certify(renewal("api.mesh.test")).await.unwrap_err().code(), Code::PermissionDenied);
}

/// Name constraints do not bound a common name, so a thief of the authority's key could take any.
#[tokio::test]
async fn a_common_name_below_name_constraints_names_no_caller() {
    let config = "[acl.certificates]\nadmin = [\"global-management\"]\n\"web.mesh.test\" = [\"global-management\"]\n";
    let mesh = Mesh::start(config, |setup| setup).await;
    let who = async |identity: Identity| {
        let mut client = AuthServiceClient::new(mesh.channel(Some(identity)).await);
        client.who_am_i(data::WhoAmIRequest {}).await.unwrap().into_inner().name
    };
    let admin = Identity::from_pem(mesh.read("admin.pem"), mesh.read("admin.key"));
    assert_eq!(who(admin).await, "certificate \"admin\"");

    let key = KeyPair::from_pem(&mesh.read("mesh.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&mesh.read("mesh.pem"), key).unwrap();
    let forged = |name: &str, alternatives: &[&str]| {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = alternatives.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key, &issuer).unwrap();
        Identity::from_pem(pem(leaf.der()) + &mesh.read("mesh.pem"), key.serialize_pem())
    };
    assert_eq!(who(forged("admin", &[])).await, "anonymous token");
    assert_eq!(who(forged("admin", &["api.mesh.test"])).await, "anonymous token");
    // Names within the constraints count.
    assert_eq!(who(forged("", &["web.mesh.test"])).await, "certificate \"web.mesh.test\"");
    // Others do not verify at all.
    let tls = super::trust(mesh.dir.path()).identity(forged("", &["admin"]));
    let endpoint = tonic::transport::Channel::from_shared(format!("https://{}", mesh.guarded.server.grpc)).unwrap();
    let refused = async {
        let channel = endpoint.tls_config(tls).unwrap().connect().await.map_err(drop)?;
        AuthServiceClient::new(channel).who_am_i(data::WhoAmIRequest {}).await.map(drop).map_err(drop)
    };
    assert_eq!(refused.await, Err(()));
}

#[tokio::test]
async fn requests_count_against_the_rates() {
    let mesh = Mesh::start("", |setup| setup.env("MORTISE_SERVICE_CALLER_WRITES_PER_SECOND", 2)).await;
    let web = mesh.token("web", "web.").await;
    let key = KeyPair::generate().unwrap();
    let client = IdentityClient::new(mesh.channel(None).await);
    // So many that a slow machine, too, begins more of them in a second than it may.
    let asking = (0..100).map(|_| {
        let (mut client, message) = (client.clone(), asked(&web, "web.mesh.test", request(&key, &["web.mesh.test"])));
        async move { client.certify(message).await.map(drop) }
    });
    let answers = futures::future::join_all(asking).await;
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert!(!refused.is_empty());
    for refused in refused {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.message().contains("service.caller_writes_per_second"), "{refused}");
    }
}

#[tokio::test]
async fn an_authority_without_tokens_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = super::init(dir.path(), &[]).await;
    assert_eq!(code, Some(0), "{err}");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (certificate, key) = (path("mesh.pem"), path("mesh.key"));
    let start = async |acl: &str, domain: &str| {
        let env = [
            ("MORTISE_ACL_ENABLED", acl),
            ("MORTISE_IDENTITY_CERT_FILE", &*certificate),
            ("MORTISE_IDENTITY_KEY_FILE", &*key),
            ("MORTISE_IDENTITY_TRUST_DOMAIN", domain),
        ];
        let (code, _, err) = mortise(&["dev"], &env).await;
        (code, err)
    };
    let (code, err) = start("false", "mesh.test").await;
    assert!(code == Some(2) && err.contains("identity.cert_file needs tokens (acl.enabled)"), "{err}");
    let (code, err) = start("true", "other.test").await;
    assert!(code == Some(1) && err.contains("identity.trust_domain: clients would refuse the authority in "), "{err}");
    let (code, err) = start("true", "").await;
    assert!(code == Some(2) && err.contains("identity.cert_file has no effect without identity.trust_domain"), "{err}");
}
