//! Changes of a caller's own token are answered; expired tokens are deleted, and the last use of others is known.

use std::time::{Duration, SystemTime};

use mortise_api::{AuthServiceClient, QueryServiceClient};
use mortise_resource::{data, pb};
use sha2::{Digest as _, Sha256};
use tonic::Code;

use super::allow;
use crate::support::{tokens::*, *};

async fn works(guarded: &Guarded, secret: &str) -> bool {
    let mut auth = AuthServiceClient::new(guarded.channel(secret).await);
    auth.who_am_i(data::WhoAmIRequest {}).await.is_ok()
}

/// Each change of the own token or policy, by each method, over TCP: the answer is what was done.
#[tokio::test]
async fn a_change_of_the_own_token_is_answered_as_done() {
    let guarded = Guarded::start(Setup::new()).await;
    let own = vec![allow(&["read", "list", "write", "delete"], &["mortise/Token", "mortise/Policy"])];
    let read = async |kind: &str, name: &str| {
        let mut client = guarded.resources(&guarded.management).await;
        client
            .read(pb::ReadRequest { id: Some(id(kind, name)) })
            .await
            .map(|answer| answer.into_inner().resource.unwrap())
    };
    let changed = |token: &pb::Resource, change: &dyn Fn(&mut data::Token)| {
        let mut next: data::Token = decoded(token);
        change(&mut next);
        pb::Resource { data: Some(any("mortise.v1.Token", &next)), ..token.clone() }
    };
    for round in 0..8 {
        // Several times, since the answer races with the notification of the change.
        let name = format!("self-{round}");
        guarded.policy(&name, "", own.clone()).await;
        let secret = guarded.token(&name, &[&name], |_| {}).await;
        let mut client = guarded.resources(&secret).await;
        let stored = read("mortise.v1.Token", &name).await.unwrap();
        let next = changed(&stored, &|token| token.secret_sha256 = Sha256::digest("next").to_vec());
        client.write(pb::WriteRequest { resource: Some(next) }).await.expect("a rotation is answered");
        assert!(!works(&guarded, &secret).await && works(&guarded, "next").await);
        let stored = read("mortise.v1.Token", &name).await.unwrap();
        let next = changed(&stored, &|token| token.expires_at = Some(SystemTime::UNIX_EPOCH.into()));
        let mut query = QueryServiceClient::new(guarded.channel("next").await);
        query.update(data::UpdateRequest { resource: Some(next), ..Default::default() }).await.expect("so is an end");
        assert!(!works(&guarded, "next").await);

        let secret = guarded.token(&name, &[&name], |_| {}).await;
        let mut client = guarded.resources(&secret).await;
        client
            .delete(pb::DeleteRequest { id: Some(id("mortise.v1.Policy", &name)), version: String::new() })
            .await
            .expect("so is the deletion of the own policy");
        guarded.policy(&name, "", own.clone()).await;
        client
            .delete(pb::DeleteRequest { id: Some(id("mortise.v1.Token", &name)), version: String::new() })
            .await
            .expect("and that of the token");
        assert_eq!(read("mortise.v1.Token", &name).await.unwrap_err().code(), Code::NotFound);

        let secret = guarded.token(&name, &[&name], |_| {}).await;
        let path = format!("/api/mortise/v1/token/{name}");
        let answer = guarded.server.ask("DELETE", &path).header("x-consul-token", &secret).await_answer().await;
        assert_eq!(answer.code(), 204, "{}", answer.body);
    }
}

/// The command keeps the new secret before the server has it, and both secrets hold for a time if it is asked for.
#[tokio::test]
async fn a_rotation_by_its_own_token_keeps_the_secret() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.policy("self", "", vec![allow(&["read", "write"], &["mortise/Token"])]).await;
    let old = guarded.token("rotating", &["self"], |_| {}).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, &old).unwrap();
    let (path, addr) = (file.to_str().unwrap().to_owned(), guarded.server.grpc.to_string());
    let rotate = async |more: &[&str]| {
        let args: &[&str] =
            &["token", "rotate", "rotating", "--grpc-addr", &addr, "--token-file", &path, "--out", &path];
        mortise(&[args, more].concat(), &[]).await
    };
    let (code, out, err) = rotate(&["--grace", "1h"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let secret = || std::fs::read_to_string(&file).unwrap().trim().to_owned();
    let second = secret();
    assert!(second != old && works(&guarded, &second).await && works(&guarded, &old).await, "both hold");
    let (code, out, err) = rotate(&[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let third = secret();
    assert!(works(&guarded, &third).await && !works(&guarded, &second).await && !works(&guarded, &old).await);
    // A refusal leaves the secret in use, and no other.
    guarded.policy("self", "", vec![allow(&["read"], &["mortise/Token"])]).await;
    let (code, _, err) = rotate(&[]).await;
    assert!(code == Some(1) && err.contains("Permission denied"), "{err}");
    assert_eq!((secret(), dir.path().join("token.new").exists()), (third.clone(), false));
    // The secret of an earlier command is not overwritten, even if that command failed.
    std::fs::write(dir.path().join("token.new"), "perhaps in use").unwrap();
    let (code, _, err) = rotate(&[]).await;
    assert!(code == Some(2) && err.contains("may hold the secret of an earlier command"), "{err}");
    // Without a file, the secret is shown before the token is stored.
    guarded.policy("self", "", vec![allow(&["read", "write"], &["mortise/Token"])]).await;
    let args = ["token", "rotate", "rotating", "--grpc-addr", &addr, "--token-file", &path];
    let (code, out, err) = mortise(&args, &[]).await;
    let lines: Vec<_> = out.lines().collect();
    assert!(code == Some(0) && lines.len() == 3 && lines[2] == "token rotating has a new secret", "{out}{err}");
    assert!(works(&guarded, lines[1]).await);
}

/// The secret before a rotation ends at its time, or with the token.
#[tokio::test]
async fn an_old_secret_ends_at_its_time() {
    let guarded = Guarded::start(Setup::new()).await;
    let hash = |secret: &str| Sha256::digest(secret).to_vec();
    let rotated = async |until: SystemTime| {
        let previous = |token: &mut data::Token| {
            token.previous_secret_sha256 = hash("before");
            token.previous_expires_at = Some(until.into());
        };
        guarded.token("two", &["global-management"], previous).await
    };
    let secret = rotated(SystemTime::now() + Duration::from_secs(3_600)).await;
    assert!(works(&guarded, &secret).await && works(&guarded, "before").await);
    let mut auth = AuthServiceClient::new(guarded.channel("before").await);
    assert!(auth.who_am_i(data::WhoAmIRequest {}).await.unwrap().into_inner().expires_at.is_some());
    let soon = SystemTime::now() + Duration::from_secs(1);
    rotated(soon).await;
    eventually("the old secret has ended", async || !works(&guarded, "before").await).await;
    assert!(SystemTime::now() >= soon && works(&guarded, &secret).await);
    let mut client = guarded.resources(&guarded.management).await;
    for (previous, until) in [(vec![7; 31], Some(soon.into())), (vec![7; 32], None), (Vec::new(), Some(soon.into()))] {
        let token = data::Token {
            secret_sha256: hash("x"),
            previous_secret_sha256: previous,
            previous_expires_at: until,
            ..data::Token::default()
        };
        let wrong = resource(id("mortise.v1.Token", "wrong"), Some(any("mortise.v1.Token", &token)));
        let refused = refusal(client.write(pb::WriteRequest { resource: Some(wrong) }).await);
        assert!(
            refused.0 == Code::InvalidArgument && refused.1.starts_with("data.previous_secret_sha256: "),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn expired_tokens_are_deleted_and_the_last_use_is_stored() {
    let guarded = Guarded::start(Setup::new().limit("token_pass_ms", 50)).await;
    let past = SystemTime::now() - Duration::from_secs(1);
    guarded.token("over", &["global-management"], |token| token.expires_at = Some(past.into())).await;
    guarded.token("idle", &["global-management"], |_| {}).await;
    let used = guarded.token("used", &["global-management"], |_| {}).await;
    for _ in 0..20 {
        assert!(works(&guarded, &used).await);
    }
    let read = async |name: &str| {
        let mut client = guarded.resources(&guarded.management).await;
        client
            .read(pb::ReadRequest { id: Some(id("mortise.v1.Token", name)) })
            .await
            .map(|answer| answer.into_inner().resource.unwrap())
    };
    eventually("the expired one is gone", async || read("over").await.is_err_and(|s| s.code() == Code::NotFound)).await;
    let use_of = |token: &pb::Resource| token.status.get("mortise.io/use").and_then(|status| status.updated_at);
    eventually("the use is stored", async || use_of(&read("used").await.unwrap()).is_some()).await;
    let stored = read("used").await.unwrap();
    let now = i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let at = use_of(&stored).unwrap().seconds;
    assert!((now - 600..=now).contains(&at), "{at} is not recent");
    // Further uses are noted in memory alone: the pass that stores the use of another token has passed this one, too.
    for _ in 0..20 {
        assert!(works(&guarded, &used).await);
    }
    assert!(works(&guarded, &"idle".repeat(8)).await);
    eventually("the other use is stored", async || use_of(&read("idle").await.unwrap()).is_some()).await;
    assert_eq!(read("used").await.unwrap().version, stored.version, "no further write");
    let addr = guarded.server.grpc.to_string();
    let (_, out, err) =
        mortise(&["token", "show", "used", "--grpc-addr", &addr, "--token", &guarded.management], &[]).await;
    assert!(out.lines().any(|line| line.starts_with("last used") && line.ends_with(" ago")), "{out}{err}");
}
