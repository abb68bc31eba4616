//! Mistakes of a caller are never the server's fault: every method of the services about resources, with each field
//! wrong by itself.

use futures::{StreamExt as _, stream};
use mortise_resource::DESCRIPTORS;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value};
use tonic::Code;

use super::calls::Client;
use crate::support::{Server, album, artist, id_in};

/// Texts that are wrong in most fields: a zero byte, a character of several bytes, and a length beyond every key.
fn texts() -> [String; 3] {
    ["a\0b".to_owned(), "Ü*/..".to_owned(), "x".repeat(2_000)]
}

/// Services about resources.
const SERVICES: [&str; 9] = [
    "hashicorp.consul.resource.ResourceService",
    "mortise.v1.AuthService",
    "mortise.v1.ChangeService",
    "mortise.v1.ControllerService",
    "mortise.v1.FunctionService",
    "mortise.v1.OwnershipService",
    "mortise.v1.QueryService",
    "mortise.v1.TypeService",
    "mortise.v1.WatchService",
];

/// Levels of messages within a request in which fields are wrong.
const DEPTH: usize = 5;

fn is_plain(message: &MessageDescriptor) -> bool {
    message.full_name().starts_with("google.protobuf.")
}

/// A request that is right as far as a message alone shows it.
fn template(of: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    let texts: &[(&str, &str)] = match of.full_name() {
        "hashicorp.consul.resource.Type" => &[("group", "demo"), ("group_version", "v2"), ("kind", "Artist")],
        "hashicorp.consul.resource.Tenancy" => &[("partition", "default"), ("namespace", "default")],
        "hashicorp.consul.resource.ID" | "hashicorp.consul.resource.Reference" => &[("name", "korn")],
        _ => &[],
    };
    for (field, text) in texts {
        message.set_field_by_name(field, Value::String((*text).to_owned()));
    }
    for field in of.fields() {
        match field.kind() {
            Kind::Message(inner)
                if depth > 0 && !field.is_map() && !is_plain(&inner) && field.containing_oneof().is_none() =>
            {
                let value = Value::Message(template(&inner, depth - 1));
                message.set_field(&field, if field.is_list() { Value::List(vec![value]) } else { value });
            }
            _ => {}
        }
    }
    message
}

/// The message with each of its fields wrong by itself.
fn wrong(message: &DynamicMessage, depth: usize) -> Vec<DynamicMessage> {
    let mut all = Vec::new();
    for field in message.descriptor().fields() {
        let values: Vec<Value> = match field.kind() {
            _ if field.is_map() => continue,
            Kind::String => texts().map(Value::String).into(),
            Kind::Enum(_) => vec![Value::EnumNumber(77), Value::EnumNumber(-1)],
            Kind::Int32 => vec![Value::I32(-1), Value::I32(i32::MAX)],
            Kind::Int64 => vec![Value::I64(i64::MIN)],
            Kind::Uint32 => vec![Value::U32(u32::MAX)],
            Kind::Message(inner) if depth > 0 && !is_plain(&inner) => {
                wrong(&template(&inner, depth - 1), depth - 1).into_iter().map(Value::Message).collect()
            }
            _ => continue,
        };
        for value in values {
            let mut one = message.clone();
            one.set_field(&field, if field.is_list() { Value::List(vec![value]) } else { value });
            all.push(one);
        }
        let mut without = message.clone();
        without.clear_field(&field);
        all.push(without);
    }
    all
}

#[tokio::test]
async fn no_wrong_field_of_a_request_is_an_internal_error() {
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let owner = id_in("demo.v2.Artist", "korn", "default", "default");
    server.write(album("issues", Some(&owner))).await.unwrap();
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let client = Client::open(&server).await;
    let mut requests = Vec::new();
    for name in SERVICES {
        for method in pool.get_service_by_name(name).unwrap().methods() {
            let path = format!("/{name}/{}", method.name());
            let right = template(&method.input(), DEPTH);
            requests.extend(wrong(&right, DEPTH).into_iter().map(|message| (path.clone(), message)));
        }
    }
    let count = requests.len();
    assert!(count > 1_000, "{count} requests");
    let client = &client;
    let mut answers = stream::iter(requests)
        .map(|(path, message)| async move {
            let bytes = message.encode_to_vec();
            let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
            let framed = [&[0], length.as_slice(), &bytes].concat();
            (client.call(&path, &[("grpc-timeout", "500m")], &framed).await, path, message)
        })
        .buffer_unordered(16);
    let mut refused = 0;
    let mut faults = Vec::new();
    while let Some((answer, path, message)) = answers.next().await {
        refused += usize::from(answer.code() == Code::InvalidArgument);
        if matches!(answer.code(), Code::Internal | Code::Unknown | Code::DataLoss) {
            faults.push(format!("{path}: {:.300} {:.400}", answer.text("grpc-message"), format!("{message:?}")));
        }
    }
    println!("{count} requests, {refused} refused as invalid");
    assert!(faults.is_empty(), "{} faults, such as\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    assert!(refused > count / 4, "{refused} of {count}");
}
