//! The replicas that an adoption takes from a lost region, and the resources that it leaves alone.

use mortise_resource::{
    Code,
    data::{AdoptAction, AdoptRequest, AdoptResponse},
    pb, types,
};
use mortise_store::Consistency;

use crate::{
    call::Caller,
    region::apply::tests::{Server, id_of, namespace, put},
    rules::region::{owning_region, replica_origin},
};

const ALL: [&str; 3] = ["eu", "us", "ap"];

impl Server {
    async fn adopt(
        &self,
        from: &str,
        action: AdoptAction,
        dry_run: bool,
    ) -> Result<AdoptResponse, mortise_resource::Error> {
        let request = AdoptRequest { from: from.to_owned(), action: action.into(), dry_run };
        self.service.replicas().adopt(&request).await
    }
}

/// Returns a server of us with a namespace from eu, one from ap, and one of its own.
async fn with_three() -> (Server, [pb::Id; 3]) {
    let mut here = Server::with_policy(&ALL, "eu").await;
    let one = namespace("one", "eu", "1");
    here.apply(&[put(&one)]).await;
    here.set_policy(&ALL, "ap").await;
    let two = namespace("two", "ap", "1");
    let mut theirs = here.service.replicas().progress("ap", &types::namespace().to_pb()).await.unwrap();
    here.service.replicas().apply(&mut theirs, &[put(&two)], false).await.unwrap();
    here.set_policy(&ALL, "us").await;
    let mine = pb::Id { uid: String::new(), name: "mine".into(), ..id_of(&one) };
    let request = pb::WriteRequest { resource: Some(pb::Resource { id: Some(mine), ..pb::Resource::default() }) };
    let mine = here.service.write(&Caller::host(Consistency::Consistent), request).await.unwrap();
    let mine = mine.resource.decode_id().unwrap().unwrap();
    (here, [id_of(&one), id_of(&two), mine])
}

#[tokio::test]
async fn the_replicas_of_the_lost_region_alone_are_adopted() {
    let (here, ids) = with_three().await;
    let stored = async |index: usize| here.stored(&ids[index]).await.unwrap();
    let before = [stored(0).await, stored(1).await, stored(2).await];
    for (from, action, says) in [
        ("us", AdoptAction::Adopt, "from: \"us\" is not another region"),
        ("us", AdoptAction::Remove, "from: \"us\" is not another region"),
        ("", AdoptAction::Remove, "from: \"\" is not another region"),
        ("*", AdoptAction::Adopt, "from: \"*\" is not another region"),
        ("eu", AdoptAction::Unspecified, "action: is missing"),
    ] {
        let refused = here.adopt(from, action, false).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{from:?} {action:?}");
        assert!(refused.message.starts_with(says), "{refused}");
    }
    assert_eq!(here.adopt("sa", AdoptAction::Remove, false).await.unwrap(), AdoptResponse::default());
    let plan = here.adopt("eu", AdoptAction::Adopt, true).await.unwrap();
    assert_eq!((plan.types.len(), plan.types[0].done, plan.refused.len()), (1, 1, 0), "{plan:?}");
    assert_eq!([stored(0).await, stored(1).await, stored(2).await], before);
    assert_eq!(here.adopt("eu", AdoptAction::Adopt, false).await.unwrap(), plan);
    let adopted = stored(0).await;
    assert_eq!((owning_region(&adopted), replica_origin(&adopted)), ("us", ""));
    assert_eq!(adopted.id, before[0].id);
    assert_eq!([stored(1).await, stored(2).await], before[1..]);
}

#[tokio::test]
async fn the_policy_decides_whether_a_replica_may_be_adopted() {
    let (here, ids) = with_three().await;
    let before = here.stored(&ids[0]).await.unwrap();
    for (enabled, control, says) in [
        (&ALL[..], "ap", "the policy of its partition gives it to region \"ap\""),
        (&ALL[..], "eu", "the policy of its partition gives it to region \"eu\""),
        (&["eu"], "us", "the policy of its partition does not enable region \"us\""),
    ] {
        here.set_policy(enabled, control).await;
        let answer = here.adopt("eu", AdoptAction::Adopt, false).await.unwrap();
        assert_eq!((answer.types[0].done, answer.types[0].refused), (0, 1), "{answer:?}");
        assert!(answer.refused[0].detail.starts_with(says), "{answer:?}");
        assert_eq!(here.stored(&ids[0]).await.unwrap(), before, "{says}");
    }
}
