//! A server whose work was given to another one without its knowledge.

use mortise_resource::pb;
use mortise_store::{Backend as _, Batch, Mutation, Options, StoreError, conformance::fixtures::resource};

use crate::{
    EtcdBackend, EtcdOptions,
    client::{Client, Transaction},
    keys::Keys,
};

fn work(resource: pb::Resource) -> Batch {
    Batch::single(Mutation::Put(Box::new(resource))).held(Some("work".into()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_under_a_lease_that_was_lost_unnoticed_is_refused() {
    let Some(endpoint) = mortise_test_process::etcd::shared().unwrap() else { return };
    let dir = tempfile::tempdir().unwrap();
    let prefix = "/lost-lease/".to_owned();
    let options = EtcdOptions { endpoints: vec![endpoint.to_owned()], prefix, credentials: None, tls: None };
    let server = EtcdBackend::open(&options, Options::new(dir.path())).await.unwrap();
    let mut held = server.hold("work");
    for round in 0..5 {
        held.wait_for(|held| *held).await.unwrap();
        server.commit(work(resource(&format!("before-{round}")))).await.unwrap();

        // As the end of the lease would, while this server sleeps.
        let (client, keys) = (Client::new(&options).unwrap(), Keys::new(&options.prefix));
        let mut losing = Transaction::default();
        losing.delete(keys.placement("work"));
        client.txn(losing.into_request()).await.unwrap();
        let refused = server.commit(work(resource(&format!("after-{round}")))).await;
        assert!(matches!(&refused, Err(StoreError::NotHeld(name)) if name == "work"), "{refused:?}");
        // It notices, and takes the work again.
        held.wait_for(|held| !*held).await.unwrap();
    }
}
