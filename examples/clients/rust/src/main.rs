//! A client of Mortise in Rust: docs/clients.md explains what it does, and README.md how to run it.

mod client;
mod watch;

/// The generated code.
#[allow(clippy::all, dead_code)]
mod api {
    include!(concat!(env!("OUT_DIR"), "/api.rs"));
}

use std::{env, error::Error, time::Duration};

use api::hashicorp::consul::resource::Resource;
use client::{Client, Token, artist_of, code_of, connect};
use tokio::task::JoinSet;
use tonic::Status;
use watch::Watch;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let namespace = env::var("MORTISE_NAMESPACE")?;
    let secret = std::fs::read_to_string(env::var("MORTISE_TOKEN_FILE")?)?;
    let channel = connect(&env::var("MORTISE_GRPC_ADDR")?)?;
    let token = Token::new(Some(secret.trim()))?;
    let client = Client::new(&channel, &token, &namespace);

    println!("I am {}", client.who().await?.accessor_id);

    let korn = client.write(client.artist("korn", "Korn")).await?;
    println!("wrote korn: {}", artist_of(&korn)?.genre().as_str_name());
    println!("read korn: {}", artist_of(&client.read("korn").await?)?.name);

    // A version is of one state of the resource, a uid of one life.
    client.write(client.artist("korn", "Korn")).await?;
    println!("stale version: {}", code_of(&client.write(korn).await));
    let brief = client.write(client.artist("brief", "Brief")).await?;
    client.delete(brief.id.clone().unwrap_or_default()).await?;
    client.write(client.artist("brief", "Brief")).await?;
    println!("old uid: {}", code_of(&client.write(Resource { version: String::new(), ..brief }).await));
    client.delete(client.id("brief")).await?;

    println!("missing: {}", code_of(&client.read("missing").await));
    println!("invalid: {}", code_of(&client.write(client.artist("invalid", "")).await));
    println!("other namespace: {}", code_of(&Client::new(&channel, &token, "default").read("korn").await));
    let (none, wrong) = (Token::new(None)?, Token::new(Some("wrong"))?);
    println!("no token: {}", code_of(&Client::new(&channel, &none, &namespace).read("korn").await));
    println!("wrong token: {}", code_of(&Client::new(&channel, &wrong, &namespace).read("korn").await));

    // A deadline ends a call, a watch too: the end of the future cancels it.
    let ending = async {
        let mut stream = client.watches.clone().watch_resources(client.everything("")).await?.into_inner();
        while stream.message().await?.is_some() {}
        Ok::<_, Status>(())
    };
    let ended = tokio::time::timeout(Duration::from_millis(300), ending).await;
    println!("deadline: {}", code_of(&ended.unwrap_or_else(|_| Err(Status::deadline_exceeded("300 ms have passed")))));

    let writer = async || {
        for _ in 0..5 {
            client.update("korn", count).await?;
        }
        Ok::<_, Status>(())
    };
    tokio::try_join!(writer(), writer())?;
    println!("counted: {}", client.read("korn").await?.metadata.get("count").map_or("", String::as_str));

    // The first failure of a group cancels its other calls; the channel stays.
    let mut group = JoinSet::new();
    for number in 0..10 {
        let client = client.clone();
        group.spawn(async move { client.read(if number < 9 { "korn" } else { "missing" }).await });
    }
    let mut failed = String::new();
    while let Some(ended) = group.join_next().await {
        failed = code_of(&ended?);
        if failed != "Ok" {
            break;
        }
    }
    drop(group);
    println!("group: {failed} {}", artist_of(&client.read("korn").await?)?.name);

    // More reads than a caller has: `read` waits and repeats.
    let mut answered = 0;
    for _ in 0..120 {
        client.read("korn").await?;
        answered += 1;
    }
    println!("reads: {answered}");

    let mut watch = Watch::default();
    watch
        .run(&client, |names| {
            println!("watch: {names}");
            !names.split(' ').any(|name| name == "stop")
        })
        .await?;
    println!("resumed {}, reset {}", watch.resumed, watch.reset);

    if let Ok(socket) = env::var("MORTISE_SOCKET") {
        let local = Client::new(&connect(&format!("unix:{socket}"))?, &none, &namespace);
        println!("socket: {}", local.who().await?.policies.join(" "));
    }
    client.delete(client.id("korn")).await?;
    println!("done");
    Ok(())
}

/// Counts in the metadata.
fn count(resource: &mut Resource) {
    let counted = resource.metadata.get("count").and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    resource.metadata.insert("count".into(), (counted + 1).to_string());
}
