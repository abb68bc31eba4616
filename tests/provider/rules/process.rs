//! The provider as a process that a core starts, and under a real core.

use std::{path::PathBuf, process::Stdio, time::Instant};

use mortise_provider::{
    proto::{
        plugin::{Empty, grpc_controller_client::GrpcControllerClient},
        tfplugin6 as pb,
    },
    value::Value,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{EVERYTHING, REQUIRED, id_of, list, socket, summaries, text, with};
use crate::{
    provider::{
        real_core::RealCore,
        terraform_core::{CORE_CERTIFICATE, Core, OTHER_CERTIFICATE, connect_tls},
    },
    support::{PATIENCE, Setup, controllers::read_until, gvk, tenancy},
};

/// A process started by core.
struct Launched {
    child: Child,
    socket: PathBuf,
    certificate: Vec<u8>,
}

async fn start(env: &[(&str, &str)]) -> Result<Launched, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mortise"));
    command
        .env("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("MORTISE_CONTEXTS", "/nonexistent")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let Some(line) = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap() else {
        let output = child.wait_with_output().await.unwrap();
        return Err(String::from_utf8(output.stderr).unwrap());
    };
    let fields: Vec<_> = line.split('|').collect();
    assert_eq!((&fields[..3], fields[4]), (&["1", "6", "unix"][..], "grpc"), "{line}");
    assert!(!fields[5].contains('='), "core reads no padding");
    let certificate = base64_of(fields[5]);
    Ok(Launched { child, socket: fields[3].into(), certificate })
}

fn base64_of(text: &str) -> Vec<u8> {
    use std::io::Read as _;
    let mut decoder =
        std::process::Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let padded = format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
    std::io::Write::write_all(&mut decoder.stdin.take().unwrap(), padded.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    decoder.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    decoder.wait().unwrap();
    bytes
}

async fn ended(launched: &mut Launched) {
    assert!(timeout(PATIENCE, launched.child.wait()).await.unwrap().unwrap().success());
    assert!(!launched.socket.exists(), "the socket goes with the process");
}

/// Core opens a connection for each instance of the provider in each phase.
#[tokio::test]
async fn a_hundred_cores_are_attached_at_the_same_time() {
    let server = Setup::new().start().await;
    let mut cores = Vec::new();
    for _ in 0..100 {
        cores.push(Core::attach(&socket(&server)).await);
    }
    for core in &mut cores {
        core.configure(&[]).await.unwrap();
    }
}

#[tokio::test]
async fn core_starts_a_provider_takes_its_certificate_and_ends_it() {
    let server = Setup::new().guest("every-field").start().await;
    let address = server.grpc.to_string();
    let env = [("MORTISE_GRPC_ADDR", address.as_str()), ("PLUGIN_CLIENT_CERT", CORE_CERTIFICATE.certificate)];
    let mut launched = start(&env).await.unwrap();
    // Refused: no certificate, another certificate, and a connection without TLS.
    for own in [None, Some(OTHER_CERTIFICATE)] {
        let refused = async {
            let mut stream = connect_tls(&launched.socket, &launched.certificate, own).await?;
            let mut byte = [0];
            match tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await? {
                0 => Err(std::io::Error::other("closed")),
                _ => Ok(()),
            }
        };
        assert!(timeout(PATIENCE, refused).await.unwrap().is_err(), "{own:?}");
    }
    let (socket, certificate) = (launched.socket.clone(), launched.certificate.clone());
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        let (socket, certificate) = (socket.clone(), certificate.clone());
        async move {
            let stream = connect_tls(&socket, &certificate, Some(CORE_CERTIFICATE)).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connect).await.unwrap();
    let mut core = Core::of(channel.clone()).await.unwrap();
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "launched", &[("text", text("X"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    core.destroy(&made).await.unwrap();
    // Core handles Ctrl-C.
    let pid = launched.child.id().unwrap().to_string();
    std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    Core::of(channel.clone()).await.unwrap();
    assert!(launched.child.try_wait().unwrap().is_none());
    GrpcControllerClient::new(channel).shutdown(Empty {}).await.unwrap();
    ended(&mut launched).await;
}

#[tokio::test]
async fn a_provider_started_wrongly_or_without_a_server_reports_it() {
    let by_hand = start(&[("TF_PLUGIN_MAGIC_COOKIE", "")]).await;
    assert!(by_hand.is_err());
    // A program started by another provider has core's variable, and must still run as a program.
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_mortise"))
        .arg("--version")
        .env("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
        .output()
        .unwrap();
    assert!(String::from_utf8(command.stdout).unwrap().starts_with("mortise "));
    let old = start(&[("PLUGIN_PROTOCOL_VERSIONS", "5")]).await.err().unwrap();
    assert!(old.contains("speaks version 6"), "{old}");
    let bad = start(&[("PLUGIN_CLIENT_CERT", "no pem")]).await.err().unwrap();
    assert!(bad.contains("PLUGIN_CLIENT_CERT holds no certificate"), "{bad}");
    // Without TLS, as with TF_DISABLE_PLUGIN_TLS; and without a server.
    let mut launched = start(&[("MORTISE_GRPC_ADDR", "127.0.0.1:1")]).await.unwrap();
    let channel = crate::provider::terraform_core::channel(&launched.socket).await;
    let faults = Core::of(channel).await.err().unwrap();
    assert!(summaries(&faults).contains("no server can be reached"), "{faults:?}");
    // No connection is left.
    ended(&mut launched).await;
}

#[tokio::test]
async fn the_log_for_core_has_each_call_and_no_secret() {
    let server = Setup::new().guest("every-field").start().await;
    let address = server.grpc.to_string();
    let token = "0f6c2f0e-token-of-the-test";
    let env = [("MORTISE_GRPC_ADDR", address.as_str()), ("MORTISE_TOKEN", token), ("TF_LOG", "TRACE")];
    let mut launched = start(&env).await.unwrap();
    let mut stderr = launched.child.stderr.take().unwrap();
    // Lines that nothing reads would hold the provider up.
    let log = tokio::spawn(async move {
        let mut log = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut log).await.map(|_| log)
    });
    let channel = crate::provider::terraform_core::channel(&launched.socket).await;
    let mut core = Core::of(channel.clone()).await.unwrap();
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "logged", &[("secret", text("hunter2")), ("text", text("private"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    core.destroy(&made).await.unwrap();
    GrpcControllerClient::new(channel).shutdown(Empty {}).await.unwrap();
    let log = log.await.unwrap().unwrap();
    ended(&mut launched).await;
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for method in ["ListTypes", "Plan", "Write", "Read", "Delete"] {
        let line = lines.iter().find(|line| line["method"] == method && line["code"] == "Ok").expect(method);
        assert_eq!(line["@message"], "called the server");
        assert!(line["duration"].as_str().unwrap().ends_with("ms") && line["@level"] == "debug", "{line}");
    }
    let write = lines.iter().find(|line| line["method"] == "Write").unwrap();
    assert_eq!(write["id"], "fields.v1.Everything/logged", "the place is the server's default");
    for secret in [token, "hunter2", "private"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn a_server_that_goes_away_costs_no_state() {
    let server = Setup::new().guest("every-field").start().await;
    let address = server.grpc.to_string();
    let launched = start(&[("MORTISE_GRPC_ADDR", &address), ("MORTISE_TIMEOUT", "2s")]).await.unwrap();
    let mut core = Core::of(crate::provider::terraform_core::channel(&launched.socket).await).await.unwrap();
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let wanted = core.config(EVERYTHING, "x", &[("yes", Value::Bool(true))]);
    let planned = core.plan(EVERYTHING, Some(&made), &wanted).await.unwrap();
    let other = core.config(EVERYTHING, "y", &[]);
    let creation = core.plan(EVERYTHING, None, &other).await.unwrap();
    // A wait goes on without the server, until its own end.
    let wait = [("conditions", list(&[text("Never")])), ("fields", Value::Null), ("timeout", text("3s"))];
    let waiting = with(core.config(EVERYTHING, "z", &[]), "wait", Value::object(wait));
    let waited = core.plan(EVERYTHING, None, &waiting).await.unwrap();
    let stop = async {
        read_until(&server, &id_of("z"), |_| true).await;
        server.stop().await
    };
    let (applied, stopped) = tokio::join!(core.apply(EVERYTHING, None, &waiting, &waited), stop);
    assert!(stopped.success());
    let (faults, state) = applied.unwrap_err();
    assert!(summaries(&faults).contains("the timeout passed before these conditions were true: Never"), "{faults:?}");
    assert_eq!(state.get("id"), &text("default/default/z"));
    let away = |faults: &[pb::Diagnostic]| {
        assert!(summaries(faults).contains(&format!("the server at http://{address} does not answer")), "{faults:?}");
    };
    away(&core.refresh(&made).await.unwrap_err());
    away(&core.plan(EVERYTHING, Some(&made), &wanted).await.unwrap_err());
    let (faults, state) = core.apply(EVERYTHING, Some(&made), &wanted, &planned).await.unwrap_err();
    away(&faults);
    assert_eq!(state, made.state);
    let (faults, state) = core.apply(EVERYTHING, None, &other, &creation).await.unwrap_err();
    away(&faults);
    assert!(state.is_null());
    let (faults, state) = core.destroy(&made).await.unwrap_err();
    away(&faults);
    assert_eq!(state, made.state);
    away(&core.data(EVERYTHING, &[("name", text("x"))]).await.unwrap_err());
}

/// Runs with one core, since cores themselves take most of the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_applies_200_resources_and_finds_nothing_to_do() {
    let Some(core) = RealCore::opentofu().or_else(RealCore::terraform) else { return };
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{text}")).unwrap();
    let resources = |text: &str| {
        format!(
            "resource \"{EVERYTHING}\" \"it\" {{\n  count = 200\n  name = \"it-${{count.index}}\"\n  data {{\n    text = \
             \"{text}\"\n    tags = [\"b\", \"a\", \"b\"]\n    parts = [{{ name = \"${{count.index}}\" }}]\n    took = \
             \"90s\"\n    double = 0.1\n    huge = 18446744073709551615\n  }}\n}}\n"
        )
    };
    write(&resources("One"));
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    let begun = Instant::now();
    let (applied, said) = run(&["apply", "-auto-approve", "-parallelism=20"]);
    assert!(applied && said.contains("200 added"), "{said}");
    eprintln!("200 resources, 20 at once: {:?}", begun.elapsed());
    let (planned, said) = run(&["plan", "-detailed-exitcode", "-parallelism=20"]);
    assert!(planned, "{said}");
    write(&resources("Two"));
    let (applied, said) = run(&["apply", "-auto-approve", "-parallelism=20"]);
    assert!(applied && said.contains("200 changed"), "{said}");
    server.delete(&id_of("it-7"), "").await.unwrap();
    let (_, said) = run(&["plan"]);
    assert!(said.contains("1 to add, 0 to change, 0 to destroy"), "{said}");
    let (destroyed, said) = run(&["destroy", "-auto-approve", "-parallelism=20"]);
    assert!(destroyed && said.contains("199 destroyed"), "{said}");
    assert_eq!(server.list(gvk("fields.v1.Everything"), tenancy("default", "default"), "").await.unwrap().len(), 0);
}
