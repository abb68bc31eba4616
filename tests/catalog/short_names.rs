//! The second zone of DNS, and names of RFC 2782.

use hickory_proto::{op::ResponseCode, rr::RecordType};

use super::dns::{additionals, answers, ask, write_web};
use crate::support::Setup;

#[tokio::test]
async fn a_second_zone_has_short_names_whose_targets_are_in_it() {
    let server = Setup::new().env("MORTISE_DNS_SHORT_ZONE", "mesh").start().await;
    let dns = server.dns.unwrap();
    write_web(&server).await;
    for name in ["web.mesh.", "WEB.default.Mesh.", "web.default.svc.cluster.local."] {
        assert_eq!(answers(&ask(dns, name, RecordType::A).await), ["A 10.0.0.1", "A 10.0.0.2"], "{name}");
    }
    // RFC 2782: the service's name in the place of a port's has all ports.
    let all = |zone: &str| {
        let (one, two) = (format!("web-1.web.default.{zone}"), format!("web-2.web.default.{zone}"));
        [format!("SRV 0 5 8080 {one}"), format!("SRV 0 5 8081 {one}"), format!("SRV 0 7 9090 {two}")]
    };
    assert_eq!(answers(&ask(dns, "_web._tcp.mesh.", RecordType::SRV).await), all("mesh."));
    assert_eq!(
        answers(&ask(dns, "_web._tcp.default.svc.cluster.local.", RecordType::SRV).await),
        all("svc.cluster.local.")
    );
    let admin = ask(dns, "_admin._tcp.web.mesh.", RecordType::SRV).await;
    assert_eq!(answers(&admin), ["SRV 0 5 8081 web-1.web.default.mesh."]);
    assert_eq!(additionals(&admin), ["web-1.web.default.mesh. 10.0.0.1".to_owned()].into());
    assert_eq!(answers(&ask(dns, "web-1.web.default.mesh.", RecordType::A).await), ["A 10.0.0.1"]);

    for (name, code) in [("gone.mesh.", ResponseCode::NXDomain), ("_tcp.mesh.", ResponseCode::NoError)] {
        let found = ask(dns, name, RecordType::A).await;
        assert_eq!(found.metadata.response_code, code, "{name}");
        assert_eq!(found.authorities[0].name.to_ascii(), "mesh.", "{found}");
    }
    let ns = ask(dns, "mesh.", RecordType::NS).await;
    assert_eq!(answers(&ns), ["NS ns.dns.cluster.local."]);
    assert_eq!(answers(&ask(dns, "mesh.", RecordType::SOA).await).len(), 1);
    assert_eq!(ask(dns, "web.other.", RecordType::A).await.metadata.response_code, ResponseCode::Refused);
}
